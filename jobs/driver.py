"""The compactor's surroundings, started in order and stopped in the reverse of it.

Catalog, lease, segment reader, Spark, status file. Spark takes seconds to start, so the
lease is asked for meanwhile; what Spark's workers need is loaded by a first empty job.
"""

import os
import socket
from types import TracebackType

from sqlalchemy.exc import SQLAlchemyError

from broker.catalog.catalog import Catalog
from broker.clock import SystemClock
from broker.settings import Settings
from broker.storage.files import PosixFiles
from broker.storage.manifest import ManifestDamaged
from broker.storage.reader import SegmentReader
from broker.storage.segment import StaleSegment
from jobs.backlog import Backlog
from jobs.compactor import Compactor
from jobs.lease import LeaseKeeper
from jobs.round import on_spark
from jobs.rows import write_files
from jobs.session import end_session, make_session
from jobs.status import StatusFile
from lakehouse.errors import LakehouseError


class Driver:
    """A context: inside it, ``compactor`` can step."""

    def __init__(self, settings: Settings, master: str) -> None:
        self._settings, self._master = settings, master
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        self.passing_troubles = (
            OSError, SQLAlchemyError, StaleSegment, ManifestDamaged, LakehouseError,
            Py4JError, PySparkException,
        )  # fmt: skip

    def __enter__(self) -> "Driver":
        settings, clock = self._settings, SystemClock()
        (settings.data_dir / "tables").mkdir(parents=True, exist_ok=True)
        self._catalog = Catalog.open(settings.data_dir / "catalog.db")
        holder = f"{socket.gethostname()}:{os.getpid()}"
        self._lease = LeaseKeeper(self._catalog, holder, clock)
        self._lease.start()
        self._session = make_session(self._master, "lakelog compactor")
        context = self._session.sparkContext
        cores = context.defaultParallelism
        context.parallelize([[]] * cores, cores).map(write_files).collect()
        reader = SegmentReader(PosixFiles(), settings.data_dir / "wal")
        self.compactor = Compactor(
            settings, self._catalog, Backlog(reader), on_spark(context), cores, clock,
            lambda: self._lease.held,
        )  # fmt: skip
        self._status = StatusFile(
            settings.data_dir / "run" / "compactor.json",
            lambda: (
                {"pid": os.getpid(), "at_ms": clock.now_ms()} | self.compactor.counts
            ),
        )
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
        self.compactor.counts["state"] = "stopped"
        self._status.stop()
        self._lease.stop()
        self._catalog.close()
        end_session(self._session)
