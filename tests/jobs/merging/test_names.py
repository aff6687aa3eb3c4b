"""A merged file's name tells what it was made of, and so what it replaced."""

import pytest

from jobs.merging.names import (
    Mark,
    Replaced,
    continued,
    ended,
    mark_of,
    merged_name,
    span_of,
    written_with,
)
from lakehouse.log.actions import DataFile
from tests.support.data_files import data_file

PURE = merged_name([data_file(0, 10), data_file(10, 30)], "a-b-1")


def theirs(first: int, end: int) -> DataFile:
    return data_file(first, end)._replace(path="partition=0/part-0-spark.parquet")


def test_it_covers_what_its_sources_were_made_of() -> None:
    assert span_of(PURE) == (0, 0, 30)
    expired = data_file(0, 20)._replace(first_offset=5, last_offset=7)
    assert span_of(merged_name([expired, theirs(40, 50)], "a-b-1")) == (0, 0, 50)
    assert span_of("partition=0/part-0-spark.parquet") is None


def test_what_goes_on_in_another_file_proves_nothing() -> None:
    marked = merged_name([data_file(0, 10)], "a-b-1", Mark(10, 7))
    for path, mark in ((PURE, None), (marked, Mark(10, 7))):
        other = continued(path, 5)
        assert span_of(other) == (0, 5, (span_of(path) or (0, 0, 0))[2])
        assert mark_of(other) == mark
        assert data_file(6, 7).path not in Replaced([other])
        assert written_with(other) == written_with(path)
        assert written_with(path) in path
        assert written_with(path) in other
    others = [merged_name([data_file(10, 30)], "a-b-2"), data_file(0, 30).path]
    assert [path for path in others if written_with(PURE) in path] == []


def test_a_file_that_another_goes_on_from_ends_where_that_begins() -> None:
    marked = merged_name([data_file(0, 10)], "a-b-1", Mark(10, 7))
    for path in (PURE, marked, continued(marked, 3)):
        other = ended(path, 5)
        first = (span_of(path) or (0, 0, 0))[1]
        assert span_of(other) == (0, first, 5)
        assert mark_of(other) == mark_of(path)
        assert written_with(other) == written_with(path)
        assert written_with(path) in other
    assert data_file(0, 5).path in Replaced([ended(PURE, 5)])
    assert data_file(0, 10).path not in Replaced([ended(PURE, 5)])


def test_what_lies_in_it_was_merged() -> None:
    replaced = Replaced([PURE, data_file(30, 40).path])
    for first, end in ((0, 10), (10, 30), (0, 30), (4, 5)):
        assert data_file(first, end).path in replaced
    for first, end in ((0, 31), (25, 35), (30, 40)):
        assert data_file(first, end).path not in replaced
    assert data_file(0, 10, partition=1).path not in replaced
    assert "partition=0/part-0-spark.parquet" not in replaced


@pytest.mark.parametrize(
    "sources",
    [
        [data_file(0, 10), theirs(10, 20), data_file(20, 30)],
        [data_file(0, 10), data_file(20, 30)],
        [theirs(0, 30)],
    ],
    ids=["an owner's", "a gap", "only an owner's"],
)
def test_where_an_owner_may_have_been_it_proves_nothing(
    sources: list[DataFile],
) -> None:
    replaced = Replaced([merged_name(sources, "a-b-1")])
    assert data_file(0, 10).path not in replaced
    assert data_file(10, 20).path not in replaced


@pytest.mark.parametrize("number", ["1", "11", "f1"])
def test_the_file_of_a_round_is_no_merged_one(number: str) -> None:
    name = f"partition=0/{0:020d}-{100:020d}-1f-{number}-{number}.parquet"
    assert span_of(name) == (0, 0, 100)
    assert data_file(0, 10).path not in Replaced([name])


def test_a_merge_of_merged_files_is_one_of_all_theirs() -> None:
    again = merged_name([data_file(30, 40)._replace(path=PURE), data_file(30, 40)], "a")
    assert span_of(again) == (0, 0, 40)


def test_what_an_owner_was_in_proves_nothing_when_it_is_merged_again() -> None:
    impure = merged_name([data_file(0, 10), theirs(10, 20)], "a-b-1")
    again = merged_name(
        [data_file(0, 20)._replace(path=impure), data_file(20, 30)], "a-b-2"
    )
    assert span_of(again) == (0, 0, 30)
    assert data_file(10, 20).path not in Replaced([again])
