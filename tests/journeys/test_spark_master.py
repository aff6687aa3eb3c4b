"""The compactor on a cluster: a standalone master and two workers beside the broker."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyspark
import pytest

from jobs.check import check_data_directory
from jobs.extent import Extents
from lakehouse.location import table_path
from tests.support.confluent import create, produce_all
from tests.support.patience import STUCK_S, wait_until
from tests.support.process import BrokerPart, Part, told
from tests.support.readers import by_deltalake, consumed

DEPLOY = "org.apache.spark.deploy"
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


class Cluster:
    """Its processes, which know nothing of Lakelog but the file system."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._parts = folder, list[subprocess.Popen[bytes]]()
        host = ("--host", "127.0.0.1", "--webui-port", "0")
        log = self._start("master", "master.Master", *host, "--port", "0")
        wait_until(lambda: STARTED.search(log.read_text()), STUCK_S)
        found = STARTED.search(log.read_text())
        assert found
        self.master = found[1]
        for name in ("one", "two"):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name))
            log = self._start(name, "worker.Worker", *host, *size, self.master)
            wait_until(lambda log=log: REGISTERED in log.read_text(), STUCK_S)

    def _start(self, name: str, program: str, *words: str) -> Path:
        home, log = Path(pyspark.__file__).parent, self._folder / f"{name}.log"
        known = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        with log.open("wb") as said:
            self._parts.append(
                subprocess.Popen(
                    [home / "bin" / "spark-class", f"{DEPLOY}.{program}", *words],
                    stdout=said, stderr=said, cwd=self._folder, env=known,
                )
            )  # fmt: skip
        return log

    def kill_a_worker(self) -> None:
        """With -9, and its executor."""
        worker = psutil.Process(self._parts[-1].pid)
        for process in [*worker.children(recursive=True), worker]:
            process.kill()

    def end(self) -> None:
        for part in reversed(self._parts):
            for process in psutil.Process(part.pid).children(recursive=True):
                process.kill()
            part.kill()
            part.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


def go_on(broker: BrokerPart, first: int) -> None:
    records = [(b"k", b"%d" % n, [], n % 4) for n in range(first, first + 200)]
    produce_all(broker.bootstrap, "t", records)
    with closing(Extents(broker.data_dir)) as extents:
        extents.compact(["t"], STUCK_S)
    rows = consumed(broker.bootstrap, "t", 4)
    assert sorted(int(row[5]) for row in rows) == list(range(first + 200))
    assert by_deltalake(table_path(broker.data_dir / "tables", "t")) == rows


@pytest.mark.spark
@pytest.mark.slow
def test_rounds_run_on_workers_and_one_may_die(
    tmp_path: Path, cluster: Cluster
) -> None:
    data_dir = tmp_path / "data"
    broker = BrokerPart(data_dir, "wal.keep_ms=0", "wal.idle_seal_ms=100")
    broker.start()
    compactor = Part("compactor", data_dir, "lake.flush_ms=500")
    compactor.arguments = ["--master", cluster.master, "--conf",
                           "spark.executor.memory=512m"]  # fmt: skip
    try:
        compactor.start()
        create(broker.bootstrap, "t", 4)
        go_on(broker, 0)
        cluster.kill_a_worker()
        go_on(broker, 200)
        assert check_data_directory(data_dir).problems == []
    finally:
        compactor.end()
        broker.end()


@pytest.mark.parametrize("item", ["spark.executor.memory", "driver.host=here", "=x"])
def test_an_option_that_is_none_of_sparks_is_refused(tmp_path: Path, item: str) -> None:
    refused = told("compactor", "--data-dir", str(tmp_path), "--conf", item)
    assert refused.code != 0
    assert "spark.KEY=VALUE" in refused.errors
