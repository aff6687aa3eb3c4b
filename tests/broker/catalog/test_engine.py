"""SQLite as a catalog needs it: transactions, locks, and waiting for others."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from broker.catalog.engine import WRITING, open_engine
from broker.catalog.errors import CatalogError
from tests.support.patience import IDLE_S


@pytest.mark.parametrize("read_only", [True, False])
def test_the_log_of_a_catalog_that_is_cut_off_is_not_deleted(
    tmp_path: Path, read_only: bool
) -> None:
    """It may have all that there was."""
    (tmp_path / "x.db").write_bytes(b"")
    (tmp_path / "x.db-wal").write_bytes(b"its log")
    with pytest.raises(CatalogError, match="it is cut off"):
        open_engine(tmp_path / "x.db", read_only=read_only)
    assert (tmp_path / "x.db-wal").read_bytes() == b"its log"


def test_a_savepoint_takes_back_its_own(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (x)")
        with connection.begin_nested():
            connection.exec_driver_sql("insert into t values (1)")
        nested = connection.begin_nested()
        connection.exec_driver_sql("insert into t values (2)")
        nested.rollback()
        assert connection.exec_driver_sql("select x from t").all() == [(1,)]
    engine.dispose()


def test_a_reading_transaction_is_a_snapshot(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (x)")
    with engine.begin() as reader:
        assert reader.exec_driver_sql("select count(*) from t").scalar() == 0
        with engine.execution_options(**{WRITING: True}).begin() as writer:
            writer.exec_driver_sql("insert into t values (1)")
        assert reader.exec_driver_sql("select count(*) from t").scalar() == 0
    engine.dispose()


def test_who_will_write_waits_for_who_writes(tmp_path: Path) -> None:
    """Two that read and then write: the second waits at its begin, and then works."""
    engine = open_engine(tmp_path / "x.db", busy_ms=int(IDLE_S * 1000))
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (x)")
        connection.exec_driver_sql("insert into t values (0)")
    writing = engine.execution_options(**{WRITING: True})

    def increment() -> None:
        with writing.begin() as connection:
            (value,) = connection.exec_driver_sql("select x from t").one()
            time.sleep(0.01)
            connection.exec_driver_sql("update t set x = ?", (value + 1,))

    threads = [threading.Thread(target=increment) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(IDLE_S)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("select x from t").scalar() == 5
    engine.dispose()


def test_waiting_has_an_end(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db", busy_ms=50)
    writing = engine.execution_options(**{WRITING: True})
    with writing.begin(), pytest.raises(OperationalError, match="locked"):
        writing.connect().begin()
    engine.dispose()
