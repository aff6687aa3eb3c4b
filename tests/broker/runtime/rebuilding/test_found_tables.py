"""What a warehouse says of topics, whatever else lies in it."""

import os
import shutil
from pathlib import Path

import deltalake
import pytest

from broker.runtime.rebuilding.found_tables import find_tables
from lakehouse import warehouse_names
from lakehouse.log.delta_log import entry_path
from lakehouse.log.describe import describe_topic
from lakehouse.tables import create_table, leave_place, set_aside
from lakehouse.topic_facts import TopicFacts
from tests.support.tables import TOPIC_ID, Writer
from tests.support.warehouses import Further

FACTS = TopicFacts("orders", TOPIC_ID, 3, 7, {"retention.ms": "1000"})


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "tables"


@pytest.fixture
def writer(warehouse):
    warehouse.mkdir()
    writer = Writer(str(warehouse))
    writer.add(0, 0, 10)
    describe_topic(writer.path, FACTS, {0: 4}, now_ms=1)
    return writer


def test_a_table_says_topic_ends_and_starts(writer, warehouse):
    found = find_tables(warehouse)
    [table] = found.tables
    assert (table.facts, table.ends, table.log_starts) == (FACTS, {0: 10}, {0: 4})
    assert not table.is_deleted
    assert (found.problems, found.remarks) == ([], [])


def test_without_a_warehouse_nothing_is_found(warehouse):
    assert find_tables(warehouse).tables == []


def test_the_table_of_a_deleted_topic_is_known_as_that(writer, warehouse):
    set_aside(str(warehouse), writer.path, "orders", TOPIC_ID)
    [table] = find_tables(warehouse).tables
    assert (table.facts, table.is_deleted) == (FACTS, True)


def test_what_is_no_topics_is_left_alone(writer, warehouse):
    shutil.copytree(writer.path, warehouse / "copy")
    deltalake.write_deltalake(str(warehouse / "theirs"), deltalake.DeltaTable(
        writer.path).to_pyarrow_table())  # fmt: skip
    (warehouse / "empty").mkdir()
    (warehouse / "file").write_text("x")
    (warehouse / ".hidden").mkdir()
    found = find_tables(warehouse)
    assert [table.path for table in found.tables] == [writer.path]
    assert [remark.removeprefix(str(warehouse)) for remark in found.remarks] == [
        "/copy is a copy of the table of topic orders, and is left alone",
        "/theirs is no topic's table, and is left alone",
    ]
    assert found.problems == []


def test_of_a_damaged_log_all_that_can_be_read_is_asked(writer, warehouse):
    for end in (20, 30):
        writer.add(0, end - 10, end)
    Path(entry_path(writer.path, 3)).write_bytes(b"{")
    found = find_tables(warehouse)
    [table] = found.tables
    assert table.facts == FACTS
    assert table.problem is not None
    assert "(topic orders) cannot be read" in found.problems[0]


def test_of_a_log_of_which_nothing_can_be_read_that_is_said(writer, warehouse):
    for version in range(3):
        Path(entry_path(writer.path, version)).write_bytes(b"{")
    found = find_tables(warehouse)
    assert found.tables == []
    assert "(whose it is cannot be read) cannot be read" in found.problems[0]
    assert found.nameless == {"orders"}
    os.unlink(entry_path(writer.path, 0))


def test_tables_in_further_warehouses_are_found_by_their_links(tmp_path):
    two = Further(tmp_path, "fast", "slow")
    configs = {warehouse_names.CONFIG: "fast"}
    for number, (name, topic_id) in enumerate((("a", "ab" * 16), ("b", "cd" * 16))):
        create_table(two.warehouse, name, topic_id, 1, number=number, configs=configs)
    leave_place(two.warehouse, "b", "cd" * 16)
    found = find_tables(Path(two.warehouse))
    assert [(one.facts.name, one.is_deleted) for one in found.tables] == [
        ("a", False), ("b", True)
    ]  # fmt: skip
    assert found.tables[0].facts.configs == configs
    assert (found.problems, found.remarks) == ([], [])


def test_a_table_whose_link_was_lost_is_told_with_the_link(tmp_path):
    two = Further(tmp_path, "fast")
    configs = {warehouse_names.CONFIG: "fast"}
    path = create_table(two.warehouse, "a", "ab" * 16, 1, configs=configs)
    text = os.readlink(path)
    os.unlink(path)
    found = find_tables(Path(two.warehouse))
    assert found.tables == []
    [problem] = found.problems
    assert f"`ln -s {text} {path}`" in problem
    os.symlink(text, path)
    assert len(find_tables(Path(two.warehouse)).tables) == 1


def test_a_table_behind_a_planted_link_is_not_read(writer, warehouse, tmp_path):
    shutil.move(writer.path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", writer.path)
    found = find_tables(warehouse)
    assert found.tables == []
    assert found.nameless == {"orders"}
    assert "does not lie in" in found.problems[0]
