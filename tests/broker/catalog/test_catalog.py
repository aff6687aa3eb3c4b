"""Opening a catalog: made once, found again, refused when it is not ours."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import update

from broker.catalog import producers, schema, topics
from broker.catalog.catalog import Catalog
from broker.catalog.errors import CatalogError, CatalogMissing, CatalogTooNew
from tests.support.patience import STUCK_S


def test_a_cluster_has_one_id_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path, chance=lambda count: b"\xf8" + bytes(count - 1)) as made:
        assert len(made.cluster_id) == 22
        assert not made.cluster_id.startswith("-")
        first = made.cluster_id
    with Catalog.open(path) as again:
        assert again.cluster_id == first


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        made = catalog.change(
            lambda c: topics.create(c, "t", bytes(range(16)), 3, {"a": "b"}, 1)
        )
    with Catalog.open(path, read_only=True) as catalog:
        assert catalog.read(topics.load) == [made]


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        mode, sync = catalog.read(
            lambda c: (
                c.exec_driver_sql("PRAGMA journal_mode").scalar(),
                c.exec_driver_sql("PRAGMA synchronous").scalar(),
            )
        )
    assert (mode, sync) == ("wal", 2)


def test_a_reader_needs_a_catalog_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogMissing, match="no catalog at"):
        Catalog.open(tmp_path / "none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()


def test_a_newer_catalog_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        newer = str(schema.VERSION + 1)
        catalog.change(
            lambda c: c.execute(
                update(schema.about)
                .where(schema.about.c.key == "schema_version")
                .values(value=newer)
            )
        )
    for read_only in (False, True):
        with pytest.raises(CatalogTooNew, match="a newer version"):
            Catalog.open(path, read_only=read_only)


def test_what_is_no_catalog_is_refused(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(CatalogError, match="cannot be opened"):
        Catalog.open(garbage)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("create table mine (x)").connection.close()
    with pytest.raises(CatalogError, match="no catalog of this program"):
        Catalog.open(other)
    with pytest.raises(CatalogError, match="cannot be opened"):
        Catalog.open(tmp_path / "nowhere" / "catalog.db")
    with pytest.raises(CatalogError, match="only a SQLite file"):
        Catalog.open("postgresql://localhost/lakelog")


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    Catalog.open(path).close()
    with Catalog.open(path, read_only=True) as reader:
        with pytest.raises(Exception, match="readonly"):
            reader.read(producers.next_block)
        with pytest.raises(AssertionError):
            reader.submit(producers.next_block)


def test_a_reader_sees_what_another_committed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as broker, Catalog.open(path, read_only=True) as tool:
        assert tool.read(topics.load) == []
        broker.change(lambda c: topics.create(c, "t", bytes(16), 1, {}, 1))
        assert [topic.name for topic in tool.read(topics.load)] == ["t"]


def test_a_change_waits_for_others_as_long_as_is_said(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", busy_ms=77) as catalog:
        asked = "PRAGMA busy_timeout"
        assert catalog.change(lambda c: c.exec_driver_sql(asked).scalar()) == 77


PROCESS = """
import sys
from broker.catalog import producers
from broker.catalog.catalog import Catalog
with Catalog.open(sys.argv[1], busy_ms=600_000) as catalog:
    for _ in range(20):
        print(catalog.change(producers.next_block).start)
    print(catalog.cluster_id)
"""


def test_several_processes_open_and_write_one_file(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path / "catalog.db")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    printed = [process.communicate(timeout=STUCK_S)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    blocks = [int(line) for lines in printed for line in lines[:-1]]
    assert sorted(blocks) == [at * producers.BLOCK for at in range(80)]
    assert len({lines[-1] for lines in printed}) == 1


def test_a_killed_process_keeps_what_it_was_told(tmp_path: Path) -> None:
    """Killed after a commit it keeps it; before, it never was. And no id twice."""
    path = tmp_path / "catalog.db"
    told: list[int] = []
    for point in ("catalog.before_commit=3", "catalog.after_commit=3") * 2:
        process = subprocess.run(
            [sys.executable, "-c", PROCESS, str(path)],
            env={"LAKELOG_FAILPOINTS": point, "PYTHONUNBUFFERED": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=STUCK_S,
        )
        assert process.returncode < 0
        told += [int(line) for line in process.stdout.split()]
    assert len(told) == 8
    assert len(set(told)) == 8
    with Catalog.open(path) as catalog:
        assert catalog.change(producers.next_block).start > max(told)
