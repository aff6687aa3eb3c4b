"""The compactor on a cluster: a standalone master and two workers beside the broker,
or Spark's `local-cluster`, whose two executors are processes of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
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


@contextmanager
def compacting(data_dir: Path, master: str, *settings: str) -> Iterator[BrokerPart]:
    """A broker with a topic, and a compactor whose Spark is ``master``."""
    broker = BrokerPart(data_dir, "wal.keep_ms=0", "wal.idle_seal_ms=100")
    broker.start()
    compactor = Part("compactor", data_dir, "lake.flush_ms=500", *settings)
    compactor.arguments = ["--master", master, "--conf", "spark.executor.memory=512m"]
    try:
        compactor.start()
        create(broker.bootstrap, "t", 4)
        yield broker
        assert compactor.stop() == 0
        assert check_data_directory(data_dir).problems == []
    finally:
        compactor.end()
        broker.end()


@pytest.mark.spark
@pytest.mark.slow
def test_rounds_run_on_workers_and_one_may_die(
    tmp_path: Path, cluster: Cluster
) -> None:
    with compacting(tmp_path / "data", cluster.master) as broker:
        go_on(broker, 0)
        cluster.kill_a_worker()
        go_on(broker, 200)


@pytest.fixture
def work() -> Iterator[None]:
    """A local cluster keeps its executors' directories in Spark's own; they go."""
    place = Path(pyspark.__file__).parent / "work"
    before = set(place.glob("*"))
    yield
    for left in set(place.glob("*")) - before:
        shutil.rmtree(left)


def python_that_says_so(folder: Path) -> Path:
    """A Python with all that ours has, which notes each start in ``started``."""
    script = folder / "a python"
    started = folder / "started"
    script.write_text(
        f"#!/bin/sh\necho $$ >> '{started}'\nexec '{sys.executable}' \"$@\"\n"
    )
    script.chmod(0o755)
    return script


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("work")
def test_rounds_run_in_a_local_cluster_by_the_python_that_a_setting_names(
    tmp_path: Path,
) -> None:
    python = f"lake.spark_python={python_that_says_so(tmp_path)}"
    with compacting(tmp_path / "data", "local-cluster[2,1,1024]", python) as broker:
        go_on(broker, 0)
        go_on(broker, 200)
    assert len((tmp_path / "started").read_text().split()) == 2, "one an executor"


@pytest.mark.spark
@pytest.mark.slow
def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    broker = BrokerPart(data_dir)
    broker.start()
    try:
        refused = told(
            "compactor", "--data-dir", str(data_dir), "--master", "local[1]",
            "-X", "lake.spark_python=/no/such/python",
        )  # fmt: skip
    finally:
        broker.end()
    assert refused.code != 0
    assert "Spark's workers cannot work: Cannot run program" in refused.errors
    assert "/no/such/python" in refused.errors
    assert "Traceback" not in refused.errors


@pytest.mark.parametrize("item", ["spark.executor.memory", "driver.host=here", "=x"])
def test_an_option_that_is_none_of_sparks_is_refused(tmp_path: Path, item: str) -> None:
    refused = told("compactor", "--data-dir", str(tmp_path), "--conf", item)
    assert refused.code != 0
    assert "spark.KEY=VALUE" in refused.errors
