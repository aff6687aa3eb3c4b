"""Where tables end, as their logs say now, whatever was read of them before."""

import os
from pathlib import Path

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.tables import Tables
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
