"""A catalog that is missing where it must not be.

The problem: a start without a catalog makes an empty one, for which all that segments
hold is of deleted topics, and so is released: a lost catalog would take with it every
record that is in no table yet. The idea: the catalog is made before the first segment
and before the first table, so where one of these is and it is not, it was lost.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from broker.catalog.engine import PAGE_BYTES_MIN
from broker.catalog.errors import CatalogMissing
from lakehouse.further import named_by


def check_not_lost(data_dir: Path, *, has_log: bool) -> None:
    """Raise CatalogMissing if there is a log, or tables, and no catalog, or one without
    any content."""
    if not _is_empty(data_dir / "catalog.db"):
        return
    for what, is_there in (
        ("a log", has_log),
        ("tables", _has_tables(data_dir / "tables")),
    ):
        if is_there:
            raise CatalogMissing(
                f"there is no catalog at {data_dir / 'catalog.db'}, and there is "
                f"{what}: put it back, or make it again with `lakelog rebuild`"
            )


def _is_empty(path: Path) -> bool:
    """It is not there, or has no table: who opens one that is gone makes such a file,
    and so does who copies a young one without its write-ahead log."""
    if not path.exists():
        return True
    size = path.stat().st_size
    if size < PAGE_BYTES_MIN:  # SQLite would delete its write-ahead log
        return size == 0
    try:
        with closing(sqlite3.connect(path)) as opened:
            [tables] = opened.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        return False  # who opens it next says what is wrong with it
    return bool(tables == 0)


def _has_tables(warehouse: Path) -> bool:
    if not warehouse.is_dir():
        return False
    with os.scandir(warehouse) as found:  # one's disk may not be there
        return any(
            os.path.isdir(os.path.join(one, "_delta_log")) or named_by(one.path)
            for one in found
        )
