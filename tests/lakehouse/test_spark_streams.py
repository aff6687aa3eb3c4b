"""A real Spark reads on over what retention removes, and what deletion leaves."""

from pathlib import Path

import pytest

from lakehouse.log.commit import remove_files
from lakehouse.log.delta_log import entry_path, load
from lakehouse.tables import repair, set_aside
from tests.support.spark_reader import SparkReader
from tests.support.tables import TOPIC_ID, Writer

pytestmark = [pytest.mark.spark, pytest.mark.shared_out("beside Spark", 4)]

BEHIND = {"startingVersion": "0", "maxFilesPerTrigger": "1"}


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def retain(writer: Writer, start: int) -> None:
    """What retention does: files below ``start`` leave, and their bytes stay."""
    gone = [
        (file.path, file.partition, file.size, file.rows)
        for file in load(writer.path).files.values()
        if file.last_offset < start
    ]
    remove_files(writer.path, TOPIC_ID, gone, now_ms=1, log_starts={0: start})


@pytest.mark.parametrize("option", ["ignoreDeletes", "skipChangeCommits"])
def test_a_stream_reads_on_over_what_expired(
    writer: Writer, analyst: SparkReader, tmp_path: Path, option: str
) -> None:
    checkpoint = str(tmp_path / "checkpoint")

    def read_on() -> list[int]:
        return sorted(analyst.stream(writer.path, checkpoint, **{option: "true"}))

    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    assert read_on() == list(range(30))
    retain(writer, 20)
    writer.add(0, 30, 40)
    assert read_on() == list(range(30, 40))
    retain(writer, 40)
    assert read_on() == []
    writer.add(0, 40, 50)
    assert read_on() == list(range(40, 50))


def test_a_stream_that_is_behind_reads_what_left_the_table_meanwhile(
    writer: Writer, analyst: SparkReader, tmp_path: Path
) -> None:
    for n in range(3):
        writer.add(0, n * 10, n * 10 + 10)
    retain(writer, 20)
    writer.add(0, 30, 40)
    found = analyst.stream(
        writer.path, str(tmp_path / "c"), skipChangeCommits="true", **BEHIND
    )
    assert sorted(found) == list(range(40))


def test_without_these_options_spark_ends_a_stream_and_says_which(
    writer: Writer, analyst: SparkReader, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    writer.add(0, 0, 10)
    assert len(analyst.stream(writer.path, checkpoint)) == 10
    retain(writer, 10)
    with pytest.raises(AssertionError, match="ignoreDeletes"):
        analyst.stream(writer.path, checkpoint)
    assert analyst.stream(writer.path, checkpoint, ignoreDeletes="true") == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_stream_that_passed_empty_entries_gets_all_that_comes_behind_them(
    writer: Writer, analyst: SparkReader, tmp_path: Path, count: int
) -> None:
    """As a power cut leaves what an owner committed: it takes them for versions."""
    checkpoint = str(tmp_path / "checkpoint")
    writer.add(0, 0, 10)
    assert len(analyst.stream(writer.path, checkpoint)) == 10
    for version in range(2, 2 + count):
        Path(entry_path(writer.path, version)).write_bytes(b"")
    assert analyst.stream(writer.path, checkpoint) == []
    assert repair(writer.path) is not None
    for n in range(1, 4):
        writer.add(0, n * 10, n * 10 + 10)
    assert sorted(analyst.stream(writer.path, checkpoint)) == list(range(10, 40))


def test_the_table_of_a_deleted_topic_is_read_where_it_waits(
    writer: Writer, analyst: SparkReader, tmp_path: Path
) -> None:
    writer.add(0, 0, 10)
    aside = set_aside(str(tmp_path), writer.path, "orders", TOPIC_ID)
    [[count]] = analyst.ask(f"SELECT count(*) FROM delta.`{aside}`")
    assert count == 10
