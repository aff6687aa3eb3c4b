"""What the log says of a table, and that it is read again once it moved."""

import os
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from admin_api.lake import Lake
from admin_api.tables import facts as module
from admin_api.tables.facts import FactsReader, facts_of
from lakehouse.log.delta_log import entry_path, load
from tests.support.laked import id_of, make_table, make_topic


@pytest.fixture
def writer(tmp_path):
    return make_table(tmp_path, "orders")


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_rows_files_bytes_and_ends(writer):
    writer.add(0, 0, 10)
    writer.add(1, 5, 9, missing=[6])
    found, table = facts_of(load(writer.path)), deltalake.DeltaTable(writer.path)
    sizes = [os.path.getsize(Path(writer.path, uri)) for uri in table.file_uris()]
    assert found.version == table.version() == 2
    assert (found.files.rows, found.files.count, found.files.small) == (13, 2, 2)
    assert found.files.bytes == sum(sizes)
    assert found.partitions[1].rows == 3
    assert (found.ends, found.problem) == ({0: 10, 1: 9}, None)


def test_a_file_without_statistics_makes_the_rows_unknown(writer):
    writer.add(0, 0, 10)
    entry = Path(entry_path(writer.path, 1))
    entry.write_text(entry.read_text().replace("numRecords", "nobody"))
    found = facts_of(load(writer.path))
    assert (found.files.rows, found.files.count) == (None, 1)


def test_what_an_owner_asked_for_that_has_a_price_is_a_remark_and_no_problem(writer):
    writer.add(0, 0, 10)
    assert facts_of(load(writer.path)).remarks == ()
    table = deltalake.DeltaTable(writer.path)
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    facts = facts_of(load(writer.path))
    [remark] = facts.remarks
    assert "delta.appendOnly is true" in remark
    assert facts.problem is None


def test_a_topic_without_a_table_has_nothing_and_no_problem(lake, tmp_path):
    topic = make_topic(tmp_path, "new", topic_id=id_of(9))
    found = FactsReader(lake).of(topic)
    assert (found.version, found.problem, found.ends_are_known) == (None, None, True)


def test_a_table_that_its_owner_replaced_says_so(writer, lake):
    writer.add(0, 0, 10)
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(writer.path, theirs, mode="overwrite")
    found = FactsReader(lake).of(lake.topic("orders"))
    assert found.version is None
    assert f"{writer.path} was replaced in version 2 by its owner" in found.problem
    assert not found.ends_are_known


def test_the_table_of_an_earlier_topic_is_no_problem(writer, lake, tmp_path):
    """It makes room as soon as there is something to write."""
    writer.add(0, 0, 10)
    make_topic(tmp_path, "again", topic_id=id_of(9))
    shutil.copytree(writer.path, tmp_path / "tables" / "again")
    found = FactsReader(lake).of(lake.topic("again"))
    assert (found.version, found.problem) == (None, None)


def test_a_damaged_table_says_what_it_is(writer, lake):
    for n in range(3):
        writer.add(0, n, n + 1)
    Path(entry_path(writer.path, 1)).unlink()
    found = FactsReader(lake).of(lake.topic("orders"))
    assert found.version is None
    assert "is missing" in found.problem
    assert not found.ends_are_known


def test_a_table_that_did_not_move_is_not_read_again(writer, lake, tmp_path):
    """Its log is made unreadable behind the directory's back: only memory answers."""
    writer.add(0, 0, 10)
    log, entry = Path(writer.path, "_delta_log"), Path(entry_path(writer.path, 1))
    os.utime(log, (1, 1))
    reader, topic = FactsReader(lake), lake.topic("orders")
    first = reader.of(topic)
    entry.write_bytes(b"{")
    assert reader.of(topic) is first
    os.utime(log, (2, 2))
    assert reader.of(topic).problem is not None


def test_a_log_that_moved_just_now_is_read_again(writer, lake):
    writer.add(0, 0, 10)
    os.utime(Path(writer.path, "_delta_log"))
    reader, topic = FactsReader(lake), lake.topic("orders")
    assert reader.of(topic) is not reader.of(topic)


def test_not_more_than_a_bounded_number_is_kept(tmp_path, lake, monkeypatch):
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    reader, found = FactsReader(lake), {}
    for number in range(3):
        name = f"t{number}"
        path = make_table(tmp_path, name, topic_id=id_of(number)).path
        os.utime(Path(path, "_delta_log"), (1, 1))
        found[name] = reader.of(lake.topic(name))
    assert reader.of(lake.topic("t2")) is found["t2"]
    assert reader.of(lake.topic("t0")) is not found["t0"]


def test_partitions_weigh_and_one_that_is_too_heavy_is_not_kept(
    writer, lake, monkeypatch
):
    writer.add(0, 0, 1)
    writer.add(1, 0, 1)  # two partitions with files and ends, and the table: five
    log = Path(writer.path, "_delta_log")
    reader, topic = FactsReader(lake), lake.topic("orders")
    for most, kept in ((4, False), (5, True), (4, True)):
        monkeypatch.setattr(module, "KEPT_MAX", most)
        os.utime(log, (1, 1))
        assert (reader.of(topic) is reader.of(topic)) is kept
    os.utime(log, (2, 2))
    assert reader.of(topic) is not reader.of(topic)
