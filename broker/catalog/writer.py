"""One thread that writes: changes that wait are committed together.

The problem. A commit costs an fsync, and the loop must not wait for it; a hundred
consumers commit offsets at the same moment.

The idea. Changes are functions of a connection. They queue; the writer takes all that
wait, runs them in one transaction, commits once, and only then gives each its result.
While one fsync runs, the next group gathers. Each change has a savepoint of its own, so
that one that fails, by a rule or by a constraint, takes back itself and not its
neighbours.

The price. Results come a thread switch later, and a failed commit (a full disk) fails
everybody in the group: nothing was written, and nothing is tried again.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from broker.catalog.engine import WRITING
from broker.failpoints import passing
from broker.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")
Change = Callable[[Connection], T]
_Waiting = tuple[Change[Any], "Future[Any]"]

GROUP_MAX: Final = 512
"""Changes in one transaction: a bound on what one failed commit can fail."""


class Writer:
    """The one writer of this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.commits = 0
        self._thread = threading.Thread(
            target=self._run, name="catalog-writer", daemon=True
        )
        self._thread.start()

    def submit(self, change: Change[T]) -> "Future[T]":
        """Run ``change`` in the next transaction; the result comes after its commit.

        The future fails with what the change raised, or with KAFKA_STORAGE_ERROR if
        the catalog could not be written. Changes run in the order of submission.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the catalog is closed")
            self._queue.put((change, future))
        return future

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

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """All that waits, and whether there will be more."""
        group: list[_Waiting] = []
        item = self._queue.get()
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
        asked = [one for one in group if one[1].set_running_or_notify_cancel()]
        results: list[tuple[Future[Any], Any]] = []
        try:
            with self._engine.connect() as connection:
                writing = connection.execution_options(**{WRITING: True})
                with writing.begin():
                    results = _run_all(writing, asked)
                    passing("catalog.before_commit")
            passing("catalog.after_commit")
        except Exception as error:  # noqa: BLE001 - it is told to everybody who waits
            for _, future in asked:
                if not future.done():
                    future.set_exception(_told(error))
            return
        self.commits += 1
        for future, result in results:
            future.set_result(result)


def _run_all(
    connection: Connection, group: list[_Waiting]
) -> list[tuple["Future[Any]", Any]]:
    """The results of those that succeeded; the others are told at once."""
    results: list[tuple[Future[Any], Any]] = []
    for change, future in group:
        savepoint = connection.begin_nested()
        try:
            result = change(connection)
        except Exception as error:  # noqa: BLE001 - it is told to who asked
            savepoint.rollback()
            future.set_exception(_told(error))
        else:
            savepoint.commit()
            results.append((future, result))
    return results


def _told(error: Exception) -> Exception:
    """What the database refuses is a failure of storage to the rest of the broker."""
    if isinstance(error, SQLAlchemyError):
        told = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"the catalog could not be written: {error}"
        )
        told.__cause__ = error
        return told
    return error
