"""An owner deletes rows by deletion vectors while records flow and are compacted.

A real broker, a compactor, an idempotent producer that goes on, and the owner's real
Spark, which writes the vectors. Consumers get each record that was acknowledged and not
deleted, and none that was.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.location import table_path
from tests.crash.house import SMALL, House
from tests.crash.workload import Found, Load, read_everything, running, wait_for
from tests.support.owners_tries import refusal
from tests.support.patience import Patience
from tests.support.spark_reader import SparkReader

pytestmark = pytest.mark.spark

SETTINGS = (*SMALL, "lake.follow_ms=50", "lake.owner_wait_ms=600000")
PARTITIONS = 2
EACH = 5
"""Of so many rows one is deleted."""
TRIES_MAX = 9


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "data", settings=SETTINGS, partitions=PARTITIONS)
    house.start()
    house.compactor.start()
    yield house
    house.end()


def ask(analyst: SparkReader, statement: str) -> None:
    """Until Delta takes it: another commit may have come between."""
    refused: str | None = "CONCURRENT"
    for _ in range(TRIES_MAX):
        refused = refusal(analyst, statement)
        if refused is None:
            return
        assert "CONCURRENT" in refused
    raise AssertionError(f"never: {refused}")


def vectors(path: str) -> int:
    """How many entries of the log add a file with a deletion vector."""
    entries = Path(path, "_delta_log").glob("*.json")
    lines = (line for one in entries for line in one.read_text().splitlines())
    added = (json.loads(line).get("add") or {} for line in lines)
    return sum("deletionVector" in add for add in added)


def delete_some(
    house: House, analyst: SparkReader, load: Load, path: str, number: int
) -> set[tuple[int, int]]:
    """Rows of one partition, all of which stand in the table; which they were."""
    house.flush()
    partition = number % PARTITIONS
    offsets = [offset for p, offset in list(load.acknowledged) if p == partition]
    end = min(max(offsets), table_end(analyst, path, partition)) + 1
    where = f"partition = {partition} AND offset % {EACH} = {number} AND offset < {end}"
    ask(analyst, f"DELETE FROM delta.`{path}` WHERE {where}")
    return {(partition, offset) for offset in range(number, end, EACH)}


def table_end(analyst: SparkReader, path: str, partition: int) -> int:
    sql = f"SELECT max(offset) FROM delta.`{path}` WHERE partition = {partition}"
    [[last]] = analyst.ask(sql)
    return int(last)


def left_of(load: Load, deleted: set[tuple[int, int]]) -> Found:
    return {k: v for k, v in dict(load.acknowledged).items() if k not in deleted}


def in_table(analyst: SparkReader, path: str) -> Found:
    rows = analyst.ask(f"SELECT partition, offset, value FROM delta.`{path}`")
    found: Found = {(partition, offset): value for partition, offset, value in rows}
    assert len(found) == len(rows)
    return found


def read_without(house: House, deleted: set[tuple[int, int]]) -> Found:
    """All that a new consumer gets, once he gets none of these."""
    patience = Patience()
    found = read_everything(house.broker.bootstrap, "t", PARTITIONS)
    while deleted & found.keys():
        assert patience.lasts(len(deleted & found.keys()))
        found = read_everything(house.broker.bootstrap, "t", PARTITIONS)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("deletes", [2, 9])
def test_rows_are_deleted_by_vectors_while_records_flow(
    house: House, analyst: SparkReader, deletes: int
) -> None:
    path = table_path(str(house.data_dir / "tables"), "t")
    load = house.load("p", pause_s=0.05)
    deleted = set[tuple[int, int]]()
    with running(load):
        wait_for(lambda: len(load.acknowledged) > 200)
        house.flush()
        ask(analyst, f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
                     "('delta.enableDeletionVectors' = 'true')")  # fmt: skip
        for number in range(deletes):
            deleted |= delete_some(house, analyst, load, path, number % EACH)
            before = left_of(load, deleted)
            found = read_without(house, deleted)
            assert before.items() <= found.items()
    assert vectors(path) >= deletes
    house.flush()
    wanted = left_of(load, deleted)
    found = read_everything(house.broker.bootstrap, "t", PARTITIONS)
    assert found == wanted == in_table(analyst, path)
    assert not load.refused
    house.check()
    house.broker.kill()
    house.broker.start()
    assert read_everything(house.broker.bootstrap, "t", PARTITIONS) == wanted
