"""Tables that are no topic's are remarked, and are no problem."""

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

NOBODYS = "is no topic's table, and is left alone: a topic of that name waits until it"


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


def test_the_tables_of_topics_are_no_strays(warehouse: Path) -> None:
    rmtree(warehouse / "deleted-orders-0123")
    assert strays(warehouse) == []


def test_what_is_no_topics_is_remarked(warehouse: Path, tmp_path: Path) -> None:
    make_theirs(warehouse / "theirs")
    make_topic(tmp_path, "later", topic_id=id_of(3))
    make_theirs(warehouse / "later")
    report = check_data_directory(tmp_path)
    assert report.remarks == [
        f"{warehouse}/deleted-orders-0123 is a copy of the table of topic orders, and "
        "is left alone",
        f"{warehouse}/later {NOBODYS} is moved away",
        f"{warehouse}/theirs {NOBODYS} is moved away",
    ]
    assert report.problems == []


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
    assert strays(warehouse) == []
