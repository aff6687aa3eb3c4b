"""Where there are records a missing catalog is a lost one."""

import sqlite3
from contextlib import closing

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.engine import PAGE_BYTES_MIN
from broker.catalog.errors import CatalogMissing
from broker.catalog.missing import check_not_lost
from broker.storage.places import has_log
from lakehouse import further
from tests.support.warehouses import Further


def check(data_dir):
    check_not_lost(data_dir, has_log=has_log(data_dir / "wal"))


def test_a_new_directory_lacks_nothing(tmp_path):
    check(tmp_path)
    for part in ("wal", "tables"):
        (tmp_path / part).mkdir()
    (tmp_path / "tables" / "somebody's").mkdir()
    check(tmp_path)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("wal/checkpoint", "a log"),
        ("wal/segment-0000.log", "a log"),
        ("tables/t/_delta_log/0", "tables"),
    ],
)
def test_segments_or_tables_without_a_catalog_lost_it(tmp_path, path, what):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("")
    with pytest.raises(CatalogMissing, match=f"there is {what}: put it back"):
        check(tmp_path)
    (tmp_path / "catalog.db").write_text("")
    with pytest.raises(CatalogMissing, match=f"there is {what}: put it back"):
        check(tmp_path)
    with Catalog.open(tmp_path / "catalog.db"):
        check(tmp_path)
    check(tmp_path)


def test_a_catalog_that_somebody_opened_after_it_was_gone_is_lost(tmp_path):
    """It is a whole database then, without a table."""
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "checkpoint").write_text("")
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode=WAL")
    assert path.stat().st_size >= PAGE_BYTES_MIN
    with pytest.raises(CatalogMissing, match="put it back"):
        check(tmp_path)


def test_a_catalog_that_is_damaged_is_there(tmp_path):
    """Who opens it says so."""
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "checkpoint").write_text("")
    (tmp_path / "catalog.db").write_bytes(b"rubbish" * 1_000)
    check(tmp_path)


@pytest.mark.parametrize("content", [b"", b"cut off"])
def test_a_look_leaves_the_log_of_a_catalog_that_is_cut_off(tmp_path, content):
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "checkpoint").write_text("")
    (tmp_path / "catalog.db").write_bytes(content)
    (tmp_path / "catalog.db-wal").write_bytes(b"its log")
    if content:
        check(tmp_path)
    else:
        with pytest.raises(CatalogMissing, match="put it back"):
            check(tmp_path)
    assert (tmp_path / "catalog.db-wal").read_bytes() == b"its log"


def test_a_table_whose_disk_is_not_there_is_one(tmp_path):
    two = Further(tmp_path, "fast")
    check(tmp_path)
    further.lead(str(tmp_path / "tables" / "t"), "fast")
    two.unmount("fast")
    with pytest.raises(CatalogMissing, match="there is tables"):
        check(tmp_path)
