"""The compactor on a cluster: a standalone master and two workers beside the broker,
or Spark's `local-cluster`, whose two executors are processes of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
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

HERE = ("--host", "127.0.0.1", "--webui-port", "0")
DEPLOY = "org.apache.spark.deploy"
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


class Cluster:
    """Its processes, which know nothing of Lakelog but the file system."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._parts = folder, list[subprocess.Popen[bytes]]()
        log = self._start("master", "master.Master", *HERE, "--port", "0")
        wait_until(lambda: STARTED.search(log.read_text()), STUCK_S)
        found = STARTED.search(log.read_text())
        assert found
        self.master = found[1]
        self.add_a_worker("one")
        self.add_a_worker("two")

    def add_a_worker(self, name: str, cores: int = 1) -> None:
        place = ("--memory", "1g", "--work-dir", str(self._folder / name))
        words = (*HERE, *place, "--cores", str(cores), self.master)
        log = self._start(name, "worker.Worker", *words)
        wait_until(lambda: REGISTERED in log.read_text(), STUCK_S)

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


WIDTHS = """
import sys, time
from jobs.driver import cores_of
from jobs.session import make_session
options = {"spark.executor.memory": "512m"}
session = make_session(sys.argv[1], "widths", more=options)
cores, said = cores_of(session.sparkContext), 0
while True:
    if (now := cores()) != said:
        print(said := now, flush=True)
    time.sleep(0.05)
"""


@contextmanager
def widths(master: str) -> Iterator[Callable[[], int]]:
    """How many cores a session has, each time that it is another number."""
    process = subprocess.Popen(
        [sys.executable, "-c", WIDTHS, master], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield lambda: int(process.stdout.readline())  # type: ignore[union-attr]
    finally:
        for one in psutil.Process(process.pid).children(recursive=True):
            one.kill()
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_that_grows_or_shrinks_is_seen_to(cluster: Cluster) -> None:
    with widths(cluster.master) as width:
        assert width() == 2
        cluster.add_a_worker("three", cores=2)
        assert width() == 4
        cluster.kill_a_worker()
        assert width() == 2


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
def test_executors_that_come_behind_the_session_count() -> None:
    with widths("local-cluster[3,1,1024]") as width:
        assert any(width() == 3 for _ in range(3))


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
