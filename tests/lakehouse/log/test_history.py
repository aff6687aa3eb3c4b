"""Which version brought an offset, held against a walk through all of them."""

import json
from pathlib import Path

import deltalake
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.errors import HistoryTooLong, LogDamaged
from lakehouse.log.delta_log import entry_path, load_version, table_ends
from lakehouse.log.history import round_of
from tests.support.tables import TOPIC_ID, Writer


def walked(writer: Writer, versions: int, partition: int, offset: int) -> int | None:
    """The first version whose state reaches beyond the offset."""
    for version in range(versions):
        ends = table_ends(load_version(writer.path, version))
        if ends.get(partition, 0) > offset:
            return version
    return None


@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=9))
def test_it_is_the_version_that_a_walk_finds(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, int]]
) -> None:
    writer = Writer(str(tmp_path_factory.mktemp("warehouse")))
    ends = {0: 0, 1: 0}
    for partition, count in rounds:
        writer.add(partition, ends[partition], ends[partition] + count)
        ends[partition] += count
    for partition, end in ends.items():
        for offset in range(end + 1):
            found = round_of(writer.path, TOPIC_ID, partition, offset)
            wanted = walked(writer, len(rounds) + 1, partition, offset)
            assert (found.version if found else None) == wanted
            assert not found or found.first_offset <= offset < found.end_offset


def test_what_another_writer_says_of_ends_does_not_count(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 5)
    claim = {"txn": {"appId": f"{TOPIC_ID}/0", "version": 99}}
    Path(entry_path(writer.path, 2)).write_text(json.dumps(claim))
    assert round_of(writer.path, TOPIC_ID, 0, 50) is None
    assert round_of(writer.path, TOPIC_ID, 0, 4) == (1, 0, 5)


def test_entries_that_left_the_log_are_not_asked(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for n in range(3):
        writer.add(0, n * 5, n * 5 + 5)
    for version in (0, 1):
        Path(entry_path(writer.path, version)).unlink()
    assert round_of(writer.path, TOPIC_ID, 0, 12) == (3, 10, 15)
    assert round_of(writer.path, TOPIC_ID, 0, 1) == (2, 5, 10)


def test_no_more_entries_are_read_than_allowed(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(1, 0, 1)
    for n in range(5):
        writer.add(0, n, n + 1)
    assert round_of(writer.path, TOPIC_ID, 1, 0, entries_max=20) == (1, 0, 1)
    with pytest.raises(HistoryTooLong, match="in 2 log entries"):
        round_of(writer.path, TOPIC_ID, 1, 0, entries_max=2)


def test_a_torn_entry_is_said(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 1)
    entry = Path(entry_path(writer.path, 1))
    entry.write_bytes(entry.read_bytes() + b'{"add": {"pa')
    with pytest.raises(LogDamaged, match="entry 1"):
        round_of(writer.path, TOPIC_ID, 0, 0)


def test_rows_that_an_owner_moved_about_change_nothing(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for n in range(4):
        writer.add(0, n * 5, n * 5 + 5)
    deltalake.DeltaTable(writer.path).optimize.compact()
    writer.add(0, 20, 25)
    assert round_of(writer.path, TOPIC_ID, 0, 7) == (2, 5, 10)
    assert round_of(writer.path, TOPIC_ID, 0, 20) == (6, 20, 25)
