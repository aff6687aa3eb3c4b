"""One thread that writes: changes that wait are committed together.

The problem. A commit costs an fsync, and the loop must not wait for it; a hundred
consumers commit offsets at the same moment.

The idea. Changes are functions of a connection. They queue; the writer takes all that
wait, runs them in one transaction, commits once, and only then gives each its result.
While one fsync runs, the next group gathers. Each change has a savepoint of its own, so
that one that fails, by a rule or by a constraint, takes back itself and not its
neighbours.

A process that is stopped inside a transaction of its own keeps the lock. So the wait
for it is bounded: a group waits `PATIENCE_MS`, is then refused, and as long as the lock
is held the groups after it are refused after a moment. ``trouble`` says so. While
nobody writes the writer itself looks whether the lock is free again: a broker that is
not ready is sent no clients, and without them it would never know.

The price. Results come a thread switch later, and a failed commit (a full disk) fails
everybody in the group: nothing was written, and nothing is tried again.
"""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Connection, Engine, Transaction
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from broker.catalog.engine import BUSY_MS, WRITING, is_locked, set_busy_ms
from broker.failpoints import passing
from broker.protocol.errors import ErrorCode, KafkaError
from broker.threads import SYSTEM_THREADS, Queue, Threads

T = TypeVar("T")
Change = Callable[[Connection], T]
OnDone = Callable[[BaseException | None], None]

log = structlog.get_logger("lakelog.catalog")

PATIENCE_MS: Final = BUSY_MS
"""A group of changes waits so long for the lock."""
AGAIN_MS: Final = 500
"""And the groups after one that did not get it, so long."""
GROUP_MAX: Final = 512
"""Changes in one transaction: a bound on what one failed commit can fail."""


class _Waiting:
    """A change that waits, and what is called when it is committed or failed."""

    __slots__ = ("begins", "change", "is_finished", "on_done", "result")

    def __init__(
        self,
        change: Change[Any],
        on_done: OnDone,
        begins: Callable[[], bool] | None = None,
    ) -> None:
        self.change = change
        self.on_done = on_done
        self.begins = begins
        """Whether it is still wanted when it begins; None: it is."""
        self.result: Any = None
        self.is_finished = False

    def finish(self, error: BaseException | None) -> None:
        """Call it; no fault of it ends the thread: others wait, too."""
        self.is_finished = True
        on_done = self.on_done
        del self.on_done  # with it the change and its result would be in a circle
        try:
            on_done(error)
        except Exception:
            log.exception("a fault in what a change called when it was done")


class Writer:
    """The one writer of this process."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads = SYSTEM_THREADS,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self._engine = engine
        self._patience_ms = patience_ms
        self.trouble: str | None = None
        """Why nothing can be committed now; None: all is well."""
        self._queue: Queue[_Waiting | None] = threads.queue()
        self._lock = threading.Lock()
        self._closed = False
        self.commits = 0
        self._thread = threads.thread("catalog-writer", self._run)
        self._thread.start()

    def submit(self, change: Change[T]) -> "Future[T]":
        """Run ``change`` in the next transaction; the result comes after its commit.

        The future fails with what the change raised, or with KAFKA_STORAGE_ERROR if
        the catalog could not be written. Changes run in the order of submission.
        """
        future: Future[T] = Future()

        def done(error: BaseException | None) -> None:
            if error is None:
                future.set_result(waiting.result)
            else:
                future.set_exception(error)

        waiting = _Waiting(change, done, future.set_running_or_notify_cancel)
        self._put(waiting)
        return future

    def write(self, change: Change[Any], on_done: OnDone) -> None:
        """As ``submit``, for who needs no result and has a thread of its own.

        ``on_done`` is called with the error, or None, on the writer's thread. A future
        costs more than a small change does.
        """
        self._put(_Waiting(change, on_done))

    def _put(self, waiting: _Waiting) -> None:
        with self._lock:
            if self._closed:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the catalog is closed")
            self._queue.put(waiting)

    def close(self) -> None:
        """Commit what waits, then stop."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._gather()
            if group:
                self._commit(group)
            elif going:
                self._look_again()

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """All that waits, and whether there will be more; nothing, after a moment,
        while nothing can be committed."""
        group: list[_Waiting] = []
        try:
            item = self._queue.get(
                timeout=None if self.trouble is None else AGAIN_MS / 1000
            )
        except Empty:
            return group, True
        while item is not None:
            group.append(item)
            if len(group) == GROUP_MAX:
                return group, True
            try:
                item = self._queue.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _commit(self, group: list[_Waiting]) -> None:
        asked = [one for one in group if one.begins is None or one.begins()]
        try:
            with self._engine.connect() as connection:
                writing = connection.execution_options(**{WRITING: True})
                with self._begin(writing):
                    _run_all(writing, asked)
                    passing("catalog.before_commit")
            passing("catalog.after_commit")
        except Exception as error:  # noqa: BLE001 - everybody who waits is given it
            for one in asked:
                if not one.is_finished:
                    one.finish(_as_kafka_error(error))
            return
        self.commits += 1
        self._report_free()
        for one in asked:
            if not one.is_finished:
                one.finish(None)

    def _begin(self, connection: Connection) -> Transaction:
        """A transaction that has the lock. Raises OperationalError if it is not given
        in time: less of it while the last group did not get it either.
        """
        stalled = self.trouble is not None
        set_busy_ms(
            connection,
            min(AGAIN_MS, self._patience_ms) if stalled else self._patience_ms,
        )
        try:
            return connection.begin()
        except OperationalError as error:
            if is_locked(error):
                self._report_locked()
            raise

    def _look_again(self) -> None:
        """Take the lock for nothing, as far as somebody gives it."""
        try:
            with self._engine.connect() as connection:
                writing = connection.execution_options(**{WRITING: True})
                self._begin(writing).rollback()
        except Exception:  # noqa: BLE001 - as it was; who writes next is told why
            return
        self._report_free()

    def _report_free(self) -> None:
        if self.trouble is not None:
            log.info("the catalog can be written again")
            self.trouble = None

    def _report_locked(self) -> None:
        if self.trouble is None:
            self.trouble = "another process holds the catalog's write lock"
            log.error("the catalog cannot be written", why=self.trouble)


def _run_all(connection: Connection, group: list[_Waiting]) -> None:
    """Run each; those that fail are finished at once.

    The savepoints are set by the driver: SQLAlchemy's cost twice what an offset's
    change does.
    """
    cursor = connection.connection.cursor()
    for one in group:
        cursor.execute("savepoint one_change")
        try:
            one.result = one.change(connection)
        except Exception as error:  # noqa: BLE001 - who asked is given it
            # By SQLAlchemy, which names the error of a transaction that is lost.
            connection.exec_driver_sql("rollback to one_change")
            one.finish(_as_kafka_error(error))
        cursor.execute("release one_change")


def _as_kafka_error(error: Exception) -> Exception:
    """What database or disk refuse is a failure of storage to the rest of the broker.

    The driver's own errors as well: some changes go past SQLAlchemy for speed.
    """
    if isinstance(error, (SQLAlchemyError, sqlite3.Error, OSError)):
        refused = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the catalog could not be written: {error}"
        )
        refused.__cause__ = error
        return refused
    return error
