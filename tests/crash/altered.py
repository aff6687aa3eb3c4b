"""The real program with a part taken out or replaced: ``altered PART,PART command ...``

The problem: a crash suite that never fails proves nothing; and a product must hold no
switch that takes its promises out. The idea: this module replaces functions of the
product, in a process of its own, and then runs the command as ``lakelog`` would. Each
alteration is a fault that somebody could make; the suite must notice it.

``stops_at_points`` makes a failpoint stop the process instead of killing it.
``merges_eagerly`` lets merges come after three rounds, and ``looks_often`` lets a
compactor look at once for what it may merge or clean.
``in_process`` is no fault: it puts the work of Spark's Python workers into the
compactor's own process, which then starts in a second instead of ten.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any


def instead(owner: Any, name: str, by: Any) -> None:
    """Let ``owner`` have ``by`` in place of what it calls ``name``, and those of our
    modules that have imported it from there: they may have been loaded before.

    Raises AssertionError if it has none: then nothing would be altered.
    """
    assert hasattr(owner, name), f"{owner} has no {name}"
    real = getattr(owner, name)
    setattr(owner, name, by)
    if getattr(real, "__module__", None) == getattr(owner, "__name__", ""):
        for module in filter(_is_ours, list(sys.modules.values())):
            if vars(module).get(name) is real:
                setattr(module, name, by)


def _is_ours(module: Any) -> bool:
    name = getattr(module, "__name__", "")
    return name.partition(".")[0] in ("broker", "jobs", "lakehouse")


def acknowledged_before_written() -> None:
    """A group is called durable, and is written when the next one comes."""
    from broker.storage.active_segment import ActiveSegment

    waiting: list[tuple[int, int, bytes]] = []

    def later(self: ActiveSegment, parts: list[Any], _end: int, *, sync: bool) -> None:
        if self.empty:
            self.identify()
        waiting.append((self.slot.file, self.end, b"".join(parts)))
        if len(waiting) > 1:
            file, position, data = waiting.pop(0)
            self._files.pwritev(file, [data], position)

    instead(ActiveSegment, "write", later)


def unverified() -> None:
    """A batch is taken for what was written, whatever its bytes are."""
    from broker.storage import entry

    real = entry.crc32c

    class Fitting(int):
        def __ne__(self, other: object) -> bool:
            return False

    def crc32c(data: Any, *seed: int) -> int:
        """Of a header, which has a seed, the truth."""
        return real(data, *seed) if seed else Fitting()

    instead(entry, "crc32c", crc32c)


def never_synced() -> None:
    """What is acknowledged was written, and that is all."""
    from broker.storage.files import PosixFiles

    sync = PosixFiles.fdatasync

    def fdatasync(self: PosixFiles, file: int) -> None:
        if threading.current_thread().name != "wal-writer":
            sync(self, file)

    instead(PosixFiles, "fdatasync", fdatasync)


def sync_fails() -> None:
    """The log's fsync fails, once; those before and after it say that all is well."""
    from broker.storage.files import PosixFiles

    sync = PosixFiles.fdatasync
    left = [100]

    def fdatasync(self: PosixFiles, file: int) -> None:
        if threading.current_thread().name == "wal-writer":
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(self, file)

    instead(PosixFiles, "fdatasync", fdatasync)


def tables_never_synced() -> None:
    """Nothing of what is in a table is sent to the disk, by a sync or before it."""
    from lakehouse import durable

    instead(durable, "_write_back", lambda _: None)
    instead(os, "fsync", lambda file: None)


def starts_unchecked() -> None:
    """A commit does not look where the table ends. And nobody looks at the rows that
    are there, which is a second safeguard."""
    from lakehouse.log import commit

    instead(commit, "_is_there", lambda *_: False)
    instead(commit, "_check_starts", lambda *_: None)
    instead(commit, "_check_no_rows", lambda *_: None)


def ends_untold() -> None:
    """A commit does not say where the table ends: no ``txn``. And nobody looks at the
    rows that are there, which is a second safeguard."""
    from lakehouse.log import commit

    instead(commit, "_transactions", lambda *_: {})
    instead(commit, "_check_no_rows", lambda *_: None)


def without_lease() -> None:
    """Every compactor believes that it is the one."""
    from jobs.lease import LeaseKeeper

    instead(LeaseKeeper, "held", property(lambda self: True))


def merges_eagerly() -> None:
    """No fault: three files are enough to make one of them."""
    from jobs.merging import plan

    instead(plan, "GROWTH", 3)


def looks_often() -> None:
    """No fault: a table that needed nothing is looked at again in half a second."""
    from jobs.cleaning import cleaner
    from jobs.merging import merger

    for module in (cleaner, merger):
        instead(module, "LOOK_AGAIN_MS", 500)


def stops_at_points() -> None:
    """A failpoint stops the process, until somebody sends it SIGCONT.

    Not while the lease is renewed: the catalog's one write lock would be held by a
    process that sleeps, and everybody else would wait with it.
    """
    from broker import failpoints
    from jobs.lease import LeaseKeeper

    renewing = threading.Lock()
    renew = LeaseKeeper._attempt

    def renew_undisturbed(self: LeaseKeeper) -> None:
        with renewing:
            renew(self)

    def stop() -> None:
        with renewing:  # sent to this thread: it goes no further before it is stopped
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    instead(LeaseKeeper, "_attempt", renew_undisturbed)
    instead(failpoints, "_die", stop)


def in_process() -> None:
    """No Spark: its tasks run here, one after another."""
    import jobs.session

    instead(jobs.session, "make_session", lambda *_, **__: Session())


class Session:
    """As much of a SparkSession as the compactor's driver uses."""

    defaultParallelism = 2  # noqa: N815

    @property
    def sparkContext(self) -> "Session":
        return self

    def parallelize(self, items: Iterable[Any], _slices: int) -> "Tasks":
        return Tasks(items)

    def stop(self) -> None:
        """Nothing runs."""


class Tasks(list[Any]):
    def map(self, work: Callable[[Any], Any]) -> "Tasks":
        return Tasks(work(item) for item in self)

    def collect(self) -> list[Any]:
        return self


def main() -> None:
    """Alter, then be ``lakelog``, all of it in Python.

    The compiled writer calls the system itself: it passes none of what is replaced.
    """
    from broker.storage.wal import Wal

    instead(Wal, "accelerate", lambda *_: None)
    for name in sys.argv.pop(1).split(","):
        globals()[name]()
    from broker.cli import main as lakelog

    lakelog()


if __name__ == "__main__":
    main()
