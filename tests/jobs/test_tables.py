"""Where tables end, as their logs say now, whatever was read of them before."""

import os
from pathlib import Path

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.tables import Tables
from lakehouse.commit import commit_files
from lakehouse.delta_log import entry_path
from tests.support.tables import TOPIC_ID, Writer

TOPIC = Topic(TopicNumber(7), bytes.fromhex(TOPIC_ID), "orders", 2, {})


def test_a_table_ends_where_its_commits_do(tmp_path: Path) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    assert tables.ends([TOPIC]) == {}
    writer.add(0, 0, 10)
    assert tables.ends([TOPIC]) == {(7, 0): 10}
    writer.add(1, 0, 5)
    assert tables.ends([TOPIC]) == {(7, 0): 10, (7, 1): 5}


def test_a_commit_that_its_owner_took_out_is_not_gone_on_from(tmp_path: Path) -> None:
    """The next one would go over its offsets, as if they were in the table."""
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    assert tables.ends([TOPIC]) == {(7, 0): 20}
    os.unlink(entry_path(writer.path, 2))
    assert tables.ends([TOPIC]) == {(7, 0): 10}


def test_a_commit_that_its_owner_replaced_is_read_anew(tmp_path: Path) -> None:
    writer, tables = Writer(str(tmp_path)), Tables(str(tmp_path))
    writer.add(0, 0, 10)
    writer.add(0, 10, 20)
    assert tables.ends([TOPIC]) == {(7, 0): 20}
    os.unlink(entry_path(writer.path, 2))
    writer.add(1, 0, 5)
    assert tables.ends([TOPIC]) == {(7, 0): 10, (7, 1): 5}


def test_a_commit_on_the_followed_table_moves_its_ends(tmp_path: Path) -> None:
    Writer(str(tmp_path))
    tables = Tables(str(tmp_path))
    table = tables.open(TOPIC)
    commit_files(
        table.path, table.id, table.next_round, {0: (0, 7)}, [], snapshot=table.snapshot
    )
    assert table.next_round == 2
    assert tables.ends([TOPIC]) == {(7, 0): 7}


def test_what_a_killed_writer_left_in_the_log_is_gone_at_the_next_start(
    tmp_path: Path,
) -> None:
    writer = Writer(str(tmp_path))
    left = Path(writer.path) / "_delta_log" / ".entry-00000000000000000001-ab.tmp"
    left.touch()
    Tables(str(tmp_path)).open(TOPIC)
    assert not left.exists()
