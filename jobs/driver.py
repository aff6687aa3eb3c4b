"""The compactor as a process: its surroundings, its loop, its end.

Catalog, lease, segment store, Spark, status file: started in order and stopped in the
reverse of it. Spark takes seconds to start, so the lease is asked for meanwhile; what
Spark's workers need is loaded by a first empty job.
"""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from broker.catalog.catalog import Catalog
from broker.catalog.missing import check_not_lost
from broker.clock import SystemClock
from broker.protocol.errors import KafkaError
from broker.settings import Settings
from broker.storage.manifest import ManifestDamaged
from broker.storage.places import has_log
from broker.storage.segment import StaleSegment
from broker.storage.store import open_store
from broker.storage.warehouse import check_warehouse
from jobs.backlog import Backlog
from jobs.compactor import Compactor
from jobs.isolate import first_line
from jobs.lease import LeaseKeeper
from jobs.merging.background import Background
from jobs.merging.background import on_spark as on_one_worker
from jobs.priority import set_session_niceness
from jobs.round import on_spark
from jobs.rows import work
from jobs.session import end_session, make_session
from jobs.status import StatusFile
from lakehouse.errors import LakehouseError

POLL_S: Final = 0.2
_CAUSES: Final = re.compile(
    r"(?:Cannot run program|ModuleNotFoundError|No module named|"
    r"\[PYTHON_VERSION_MISMATCH\]).*"
)
PAUSE_S: Final = 1.0
_LOCAL: Final = re.compile(r"local\[(\d+|\*)\]")

log = structlog.get_logger("lakelog.compactor")


def run(
    settings: Settings,
    *,
    master: str = "local[*]",
    announce: Callable[[str], None] = lambda line: None,
    options: Mapping[str, str] = MappingProxyType({}),
    restarts: int = 0,
) -> int:
    """Compact until SIGTERM or SIGINT; the process's exit code.

    ``options``: Spark's, instead of ours (`jobs.session`) where they differ.
    ``announce`` gets ``compactor ready`` once Spark can work; ``restarts`` is how often
    it was started again, and is said with what it counts itself.
    """
    stop = threading.Event()
    with Driver(settings, master, options, restarts) as driver:
        _stop_on_signals(stop)
        announce("compactor ready")
        return _loop(driver, stop)


class WorkersRefused(Exception):
    """Spark has no workers that can do ours; the message is a sentence for people."""


class Driver:
    """A context: inside it, ``compactor`` can step."""

    def __init__(
        self,
        settings: Settings,
        master: str,
        options: Mapping[str, str] = MappingProxyType({}),
        restarts: int = 0,
    ) -> None:
        self._settings, self._master, self._restarts = settings, master, restarts
        self._options = options
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        self.passing_troubles = (
            OSError, SQLAlchemyError, KafkaError, StaleSegment, ManifestDamaged,
            LakehouseError, Py4JError, PySparkException,
        )  # fmt: skip

    def __enter__(self) -> "Driver":
        settings, clock = self._settings, SystemClock()
        check_not_lost(settings.data_dir, has_log=has_log(settings.data_dir / "wal"))
        check_warehouse(settings.data_dir)
        (settings.data_dir / "tables").mkdir(parents=True, exist_ok=True)
        self._catalog = Catalog.open(settings.data_dir / "catalog.db", upgrades=False)
        holder = f"{socket.gethostname()}:{os.getpid()}"
        self._lease = LeaseKeeper(self._catalog, holder, clock)
        self._lease.start()
        master, cores = with_slot_for_merges(self._master)
        python = settings.lake.spark_python
        self._session = make_session(
            master, "lakelog compactor", more=self._options, python=python
        )
        context = self._session.sparkContext
        cores_now = cores_of(context, cores)
        try:
            width = cores_now()
            context.parallelize([[]] * width, width).map(work).collect()
        except self.passing_troubles as error:
            why = worker_error(str(error))
            raise WorkersRefused(f"Spark's workers cannot work: {why}") from error
        store = open_store(str(settings.data_dir / "wal"))
        self.compactor = Compactor(
            settings, self._catalog, Backlog(store), on_spark(context), cores_now,
            clock, lambda: self._lease.held, set_session_niceness,
            Background(on_one_worker(context)),
        )  # fmt: skip
        self.compactor.counters.restarts = self._restarts
        self._status = StatusFile(
            settings.data_dir, self.compactor.status, lambda: self._lease.held
        )
        # before the first look for holds: who holds a table and then finds no status
        # knows that it will be seen; and behind Spark's start, which nobody waits for
        self._status.start()
        return self

    def spark_lives(self) -> bool:
        """Whether Spark still does anything at all."""
        context = self._session.sparkContext
        try:
            return context.parallelize([0], 1).count() == 1  # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001  (whatever it says, it does not live)
            return False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.compactor.stop()
        self._status.stop()
        self._lease.stop()
        self._catalog.close()
        end_session(self._session)


def worker_error(said: str) -> str:
    """Of all that Spark says of a job that failed, the line that tells why."""
    match = _CAUSES.search(said)
    return (
        match[0].removesuffix(")") if match else (said.strip().splitlines() or [""])[0]
    )


def with_slot_for_merges(master: str) -> tuple[str, int]:
    """The master with a slot more than it has cores, and these; 0 where it is not for
    us to say: then a merge has the slot of a round's task, and may make it wait."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return master, 0
    cores = (os.cpu_count() or 1) if match[1] == "*" else int(match[1])
    return f"local[{cores + 1}]", cores


def cores_of(context: Any, own: int = 0) -> Callable[[], int]:
    """How many cores Spark has for rounds, at each call: ``own``, where it is for us to
    say; else those of a cluster's executors that are there now (two at least), or what
    ``spark.default.parallelism`` says.

    Executors come when the session is there already, and come and go with machines.
    Raises as Py4J does when the JVM is gone; blocks for less than a millisecond.
    """
    if own:
        return lambda: own
    spark = context._jsc.sc()
    return lambda: int(spark.defaultParallelism())


def _loop(driver: Driver, stop: threading.Event) -> int:
    while not stop.is_set():
        try:
            if not driver.compactor.step():
                stop.wait(POLL_S)
        except driver.passing_troubles as error:
            log.warning("a round failed", why=first_line(error))
            driver.compactor.round_failed(first_line(error))
            if not driver.spark_lives():
                log.error("Spark is gone")
                return 1
            stop.wait(PAUSE_S)
    return 0


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal ends the loop after the round; the second ends all at once."""

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
