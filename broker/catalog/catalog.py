"""The catalog of a data directory: opened by the broker, the compactor, the tools.

Changes go through ``submit`` and are durable when their future has its result; reads go
through ``read`` and see a snapshot. What is stored, and the functions that change it,
is in the modules beside this one, by subject; each takes the connection first:

    catalog.submit(lambda connection: topics.delete(connection, number, now_ms))
    catalog.read(topics.load)
"""

import base64
import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DatabaseError

from broker.catalog import migrations, schema
from broker.catalog.engine import BUSY_MS, WRITING, open_engine
from broker.catalog.errors import CatalogError
from broker.catalog.writer import Writer
from broker.threads import SYSTEM_THREADS, Threads

T = TypeVar("T")


class Catalog:
    """An open catalog; thread-safe. Make one with ``Catalog.open``."""

    def __init__(self, engine: Engine, cluster_id: str, writer: Writer | None) -> None:
        self._engine = engine
        self._writer = writer
        self.cluster_id = cluster_id
        """The cluster's id as clients see it: 22 characters, made once."""

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        read_only: bool = False,
        upgrades: bool = True,
        busy_ms: int = BUSY_MS,
        cluster_id: str | None = None,
        chance: Callable[[int], bytes] = os.urandom,
        threads: Threads = SYSTEM_THREADS,
    ) -> "Catalog":
        """Open the SQLite file, creating it or bringing it up to date.

        ``read_only`` changes nothing, and reads an old version as it is. Whoever has
        not claimed the data directory says ``upgrades=False``: a broker of the version
        before may run on it, and could not be started again. ``busy_ms`` is how long to
        wait for another process that writes. A new one has ``cluster_id``, or makes
        one.

        Raises CatalogTooNew, CatalogTooOld (not ``upgrades``), CatalogMissing
        (``read_only`` and no file), or CatalogError if the file is something else or
        cannot be opened.
        """
        engine = open_engine(location, read_only=read_only, busy_ms=busy_ms)
        try:
            if not read_only:
                new_id = partial(_new_cluster_id, chance, cluster_id)
                _prepare(engine, new_id, upgrades=upgrades)
            found_id = _cluster_id(engine)
        except DatabaseError as error:
            engine.dispose()
            raise CatalogError(
                f"the catalog {location} cannot be opened: {error.orig}"
            ) from error
        except CatalogError:
            engine.dispose()
            raise
        writer = None if read_only else Writer(engine, threads, busy_ms)
        return cls(engine, found_id, writer)

    @property
    def commits(self) -> int:
        """Transactions committed by this process."""
        return self._writer.commits if self._writer else 0

    @property
    def trouble(self) -> str | None:
        """Why nothing can be changed now; None: all is well."""
        return self._writer.trouble if self._writer else None

    def submit(self, change: Callable[[Connection], T]) -> "Future[T]":
        """Make a change; the result comes once it is durable. See ``Writer.submit``."""
        assert self._writer is not None, "the catalog was opened to read"
        return self._writer.submit(change)

    def write(
        self,
        change: Callable[[Connection], Any],
        on_done: Callable[[BaseException | None], None],
    ) -> None:
        """As ``submit``, without a result: see ``Writer.write``."""
        assert self._writer is not None, "the catalog was opened to read"
        self._writer.write(change, on_done)

    def change(self, change: Callable[[Connection], T]) -> T:
        """``submit``, and wait: for programs that have no loop."""
        return self.submit(change).result()

    def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query on this thread, on a snapshot of its own."""
        with self._engine.connect() as connection, connection.begin():
            return query(connection)

    def close(self) -> None:
        """Commit what waits, and close the file."""
        if self._writer is not None:
            self._writer.close()
        self._engine.dispose()

    def __enter__(self) -> "Catalog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _prepare(engine: Engine, new_id: Callable[[], str], *, upgrades: bool) -> None:
    with engine.connect() as connection:
        with connection.begin():
            found = migrations.version(connection)
            if found == schema.VERSION:
                return
            if found is not None and not upgrades:
                migrations.check_not_old(found)
        with connection.execution_options(**{WRITING: True}).begin():
            migrations.prepare(connection, new_id())


def _cluster_id(engine: Engine) -> str:
    with engine.connect() as connection, connection.begin():
        found = migrations.version(connection)
        if found is None:
            raise CatalogError("the catalog is empty")
        migrations.check(found)
        value = connection.scalar(
            select(schema.about.c.value).where(schema.about.c.key == "cluster_id")
        )
    assert value is not None, "it is written with the version"
    return str(value)


def _new_cluster_id(chance: Callable[[int], bytes], wanted: str | None) -> str:
    """The one that is wanted, or one as Kafka's ``Uuid.randomUuid``: base64 without
    padding or a leading dash."""
    if wanted is not None:
        return wanted
    text = base64.urlsafe_b64encode(chance(16)).rstrip(b"=").decode()
    return text if not text.startswith("-") else "A" + text[1:]
