"""Tables that are no topic's are remarked; only one that was is a problem."""

from pathlib import Path
from shutil import copytree, rmtree

import deltalake
import pyarrow as pa
import pytest

from jobs import check_strays
from jobs.check import check_data_directory
from jobs.check_strays import strays
from tests.support.laked import id_of, make_table, make_topic
from tests.support.tables import Writer

LEFT = "and is left alone: a topic of that name waits until it is moved away"


def make_theirs(path: Path) -> None:
    rows = pa.table({"partition": pa.array([0], pa.int32())})
    deltalake.write_deltalake(str(path), rows)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    writer = make_table(tmp_path, "orders")
    warehouse = tmp_path / "tables"
    Writer(str(warehouse), "deleted", id_of(2))
    copytree(writer.path, warehouse / "deleted-orders-0123")
    (warehouse / "empty").mkdir()
    (warehouse / "file").write_text("x")
    return warehouse


@pytest.mark.parametrize("topic", ["orders", "Orders", "_orders", ".orders"])
def test_the_tables_of_topics_are_no_strays(tmp_path: Path, topic: str) -> None:
    """Nor is that of a deleted one, which the compactor has yet to set aside."""
    Writer(str(tmp_path), topic)
    assert strays(tmp_path, []) == []


def test_what_is_hidden_is_no_stray(tmp_path: Path) -> None:
    """Tables that wait for their deletion, and that of erasures."""
    path = Path(Writer(str(tmp_path)).path)
    path.rename(tmp_path / ".copy-orders")
    make_theirs(tmp_path / ".lakelog_erasures")
    assert strays(tmp_path, []) == []


def test_what_is_no_topics_is_remarked(warehouse: Path, tmp_path: Path) -> None:
    make_theirs(warehouse / "theirs")
    report = check_data_directory(tmp_path)
    assert report.remarks == [
        f"{warehouse}/deleted-orders-0123 is a copy of the table of topic orders, "
        + LEFT,
        f"{warehouse}/theirs is no topic's table, {LEFT}",
    ]
    assert report.problems == []


def test_a_topic_whose_place_is_taken_is_named(warehouse: Path, tmp_path: Path) -> None:
    rmtree(warehouse / "deleted-orders-0123")
    make_topic(tmp_path, "Later", topic_id=id_of(3))
    make_theirs(warehouse / "~later")
    make_topic(tmp_path, "orders2", topic_id=id_of(4))
    copytree(warehouse / "orders", warehouse / "orders2")
    report = check_data_directory(tmp_path)
    assert report.remarks == [
        f"Later: {warehouse}/~later holds a table that is no topic's: move it away, "
        "and the next round makes its own",
        f"orders2: {warehouse}/orders2 holds the table of topic orders, or a clone of "
        "it: move it away, and the next round makes its own",
    ]
    assert report.problems == []


def test_a_topic_whose_table_was_replaced_is_a_problem(tmp_path: Path) -> None:
    """Its consumers get none of what was in it."""
    writer = make_table(tmp_path, "orders")
    writer.add(0, 0, 10)
    theirs = pa.schema([("a", pa.int32())])
    deltalake.DeltaTable.create(writer.path, theirs, mode="overwrite")
    report = check_data_directory(tmp_path)
    [problem] = report.problems
    assert problem.startswith(f"orders: {writer.path} was replaced in version 2 ")
    assert problem.endswith(
        ": RESTORE it to version 1, and delete again what was deleted since"
    )
    assert report.remarks == []


def test_what_cannot_be_read_or_goes_meanwhile_is_none(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmtree(warehouse / "deleted-orders-0123")
    make_theirs(warehouse / "theirs")
    load = check_strays.load

    def gone(path: str, **asked: bool) -> object:
        rmtree(path, ignore_errors=True)
        return load(path, **asked)

    monkeypatch.setattr(check_strays, "load", gone)
    assert strays(warehouse, []) == []
