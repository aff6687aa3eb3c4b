"""One real compactor on a real Spark, read by three Delta readers."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs.check import check_data_directory
from tests.jobs.world import World, records_of
from tests.support.batches import Record
from tests.support.patience import IDLE_S, STUCK_S, wait_until
from tests.support.spark_reader import SparkReader

pytestmark = pytest.mark.spark

PROGRAM = """
import sys, pathlib
from broker.settings import LakeSettings, Settings
from jobs.driver import run
lake = LakeSettings(flush_ms=500, flush_max_ms=500)
settings = Settings(data_dir=pathlib.Path(sys.argv[1]), lake=lake)
say = lambda line: print(line, flush=True)
sys.exit(run(settings, master="local[2]", announce=say))
"""


class Process:
    """The compactor as `lakelog compactor` runs it."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data_dir)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "compactor ready"

    def stop(self) -> int:
        self.process.terminate()
        return self._ended()

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        assert self.process.stdout is not None
        code = self.process.wait(timeout=IDLE_S)
        self.process.stdout.close()
        return code


def some(count: int, seed: int) -> list[Record]:
    return [
        Record(
            None if i % 11 == 0 else b"key-%d" % (i % 50),
            None if i % 13 == 0 else b"%d-%d" % (seed, i) * (i % 9),
            ((b"h", b"\xff"), ("ä".encode(), None), (b"h", b"")) if i % 7 == 0 else (),
            1_700_000_000_000 + i * 1000 + seed,
        )
        for i in range(count)
    ]


def by_duckdb(path: Path, partition: int) -> list[Record]:
    """The files that the log names: DuckDB's own Delta reader is a download."""
    import deltalake
    import duckdb

    names = deltalake.DeltaTable(str(path)).file_uris()
    query = "select * from read_parquet($1, hive_partitioning = false)"
    rows = duckdb.connect().sql(query, params=[names]).to_arrow_table()
    return records_of(rows, partition)


def by_spark(analyst: SparkReader, path: Path) -> list[int]:
    """Sums over the table as Spark sees it, through delta-spark."""
    [sums] = analyst.ask(
        f"""SELECT count(*), sum(offset), count(key), sum(length(value)),
        sum(unix_millis(timestamp)), sum(coalesce(size(headers), 0))
        FROM delta.`{path}`"""
    )
    return sums


def by_polars(path: Path, partition: int) -> list[Record]:
    import polars

    frame = polars.scan_delta(str(path)).collect()
    return records_of(frame.to_arrow(), partition)


def test_a_real_round_then_a_kill_then_another(world: World) -> None:
    topic = world.topic("Flights", 2)
    for codec in range(5):
        world.produce(topic, some(400, codec), codec % 2, codec=codec)
    compactor = Process(world.data_dir)
    wait_until(lambda: sum(len(world.rows(topic, p)) for p in (0, 1)) == 2000, STUCK_S)
    world.check_rows()
    compactor.kill()
    for codec in range(5):
        world.produce(topic, some(400, codec), codec % 2, codec=codec)
    world.roll()
    again = Process(world.data_dir)
    wait_until(lambda: sum(len(world.rows(topic, p)) for p in (0, 1)) == 4000, STUCK_S)
    world.check_rows()
    assert again.stop() == 0
    for partition in (0, 1):
        expected = world.produced[topic.number, partition]
        assert by_polars(world.path(topic), partition) == expected
    assert check_data_directory(world.data_dir).problems == []
    assert (world.data_dir / "run" / "compactor.json").exists()


def test_other_readers_see_the_same(world: World, analyst: SparkReader) -> None:
    topic = world.topic("t")
    world.produce(topic, some(500, 1), codec=3)
    world.produce(topic, some(300, 2), attributes=8)
    world.flush(world.compactor())
    expected = world.produced[topic.number, 0]
    assert by_duckdb(world.path(topic), 0) == expected
    assert by_polars(world.path(topic), 0) == expected
    assert by_spark(analyst, world.path(topic)) == [
        len(expected),
        sum(record.offset for record in expected),
        sum(record.key is not None for record in expected),
        sum(len(record.value or b"") for record in expected),
        sum(record.timestamp for record in expected),
        sum(len(record.headers) for record in expected),
    ]


def test_an_owners_deletion_vectors_are_no_loss(
    world: World, analyst: SparkReader
) -> None:
    topic, compactor = world.topic("t"), world.compactor()
    for _ in range(2):
        world.produce(topic, some(10, 1))
        world.flush(compactor)
    path = f"delta.`{world.path(topic)}`"
    analyst.ask(
        f"ALTER TABLE {path} SET TBLPROPERTIES (delta.enableDeletionVectors = true)"
    )
    analyst.ask(f"DELETE FROM {path} WHERE offset IN (3, 4, 12)")
    report = check_data_directory(world.data_dir)
    assert (report.problems, report.remarks) == ([], [])
    assert (report.counts["rows_deleted_by_owner"], report.counts["rows"]) == (3, 17)
    analyst.ask(f"OPTIMIZE {path}")
    analyst.ask(f"DELETE FROM {path} WHERE offset = 7")
    analyst.ask(f"REORG TABLE {path} APPLY (PURGE)")
    report = check_data_directory(world.data_dir)
    assert (report.problems, report.remarks) == ([], [])
    assert report.counts["rows_deleted_by_owner"] == 4
    assert report.counts["rows"] == 16
