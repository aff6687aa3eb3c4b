"""Records as they are said and reported."""

import pytest
from pydantic import ValidationError

from admin_api.problems import Problem
from admin_api.records.schemas import (
    ENTRIES_MAX,
    ProduceBatch,
    ProduceData,
    ProduceRecord,
    Report,
    shown_time,
)


def test_data_has_the_fields_of_confluents_document():
    names = {field.alias or name for name, field in ProduceData.model_fields.items()}
    assert names == {
        "type",
        "subject",
        "subject_name_strategy",
        "schema_id",
        "schema_version",
        "schema",
        "data",
    }
    assert set(ProduceRecord.model_fields) == {
        "partition_id",
        "headers",
        "key",
        "value",
        "timestamp",
    }
    assert set(Report.model_fields) == {
        "error_code",
        "cluster_id",
        "topic_name",
        "partition_id",
        "offset",
        "timestamp",
        "key",
        "value",
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, 0),
        ("2021-02-05T19:14:42Z", 1612552482000),
        ("2021-02-05T19:14:42.123456Z", 1612552482123),
        ("2021-02-05T20:14:42+01:00", 1612552482000),
        ("2021-02-05T19:14:42", 1612552482000),
    ],
)
def test_a_timestamp_is_milliseconds(said, expected):
    assert ProduceRecord(timestamp=said).timestamp_ms() == expected


def test_a_timestamp_is_shown_as_it_was_said():
    assert shown_time(1612552482123) == "2021-02-05T19:14:42.123Z"


@pytest.mark.parametrize("said", ["1969-12-31T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_before_1970_there_was_no_record(said):
    with pytest.raises(Problem, match="timestamp"):
        ProduceRecord(timestamp=said).timestamp_ms()


def batch(*ids):
    return ProduceBatch.model_validate({"entries": [{"id": one} for one in ids]})


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ((), "Empty"),
        (("a", "b", "a"), "not distinct"),
        (tuple(map(str, range(ENTRIES_MAX + 1))), "More than"),
    ],
)
def test_a_batch_that_cannot_be_is_refused(ids, why):
    with pytest.raises(Problem, match=why) as caught:
        batch(*ids).check()
    assert caught.value.error_code == 42208


def test_no_more_entries_are_looked_at_than_there_may_be():
    with pytest.raises(Problem, match="More than"):
        ProduceBatch.model_validate({"entries": [{}] * (ENTRIES_MAX + 1)})


@pytest.mark.parametrize("entry_id", ["", "x" * 81, "\ud800"])
def test_an_id_has_one_to_eighty_characters(entry_id):
    batch("x" * 80).check()
    with pytest.raises(ValidationError):
        batch(entry_id)
