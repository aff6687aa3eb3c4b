"""Room on the disk: some of it is kept for what makes room.

The problem. A disk that is full does not heal by itself: to let a segment go its
records must be written to tables, a catalog and a manifest must be committed, and each
of these needs space before any is freed.

The idea. Two lines of defence. Below a *low mark* new batches are refused, while there
is still room for housekeeping; segment files that nobody needs at once are removed, and
none is made. If others fill the disk all the same, a *reserve*, a file of zeros that
holds nothing, is removed to give housekeeping its bytes. It is made again when there is
plenty. The mark is a setting, but never more than a twentieth of the disk; the reserve
is a quarter of it, and never more than some commits need.

The price. So much of the disk is never used; a look is one statvfs, four times a second
on the recycler's thread. Tables on a disk of their own are the compactor's to watch
(`jobs.warehouse`).
"""

import contextlib
from pathlib import Path
from typing import Final

import structlog

from broker.protocol.errors import ErrorCode, KafkaError
from broker.status.schema import DiskState
from broker.storage.files import Files

NAME: Final = "reserve"
LOW_BYTES: Final = 256 << 20
_SHARE: Final = 20
_RESERVE_SHARE: Final = 4
_RESERVE_BYTES_MAX: Final = 4 << 20
_MIB: Final = 1 << 20

log = structlog.get_logger("lakelog.storage")


class Space:
    """Looked at by the recycler; `refusal` and `has_room` may be asked anywhere."""

    def __init__(
        self, files: Files, directory: Path, low_bytes: int = LOW_BYTES
    ) -> None:
        self._files = files
        self._directory = directory
        self._low_bytes = low_bytes
        self._free = 1 << 62
        self._total = self._low = 0
        self._reserved = NAME in files.listdir(directory)
        self.refusal: KafkaError | None = None
        """Why new batches are refused, below the low mark."""

    def has_room(self, size: int) -> bool:
        """Whether so much may be taken and the low mark is not passed by it."""
        return self._free - size >= self._low

    def may_take(self, size: int) -> bool:
        """Whether so much may be taken for a while, to make more room than that."""
        return self._free - size >= self._low // _RESERVE_SHARE

    def state(self) -> DiskState:
        """As it was when it was looked at last. Any thread."""
        free = self._free if self._total else 0
        return DiskState(free, self._total, self._low)

    def look(self) -> None:
        """See how much is free, and act on it. Blocks; raises nothing."""
        try:
            self._free, self._total = self._files.space(self._directory)
        except OSError as error:
            log.warning("cannot see how much space is left", error=str(error))
            return
        self._low = min(self._low_bytes, self._total // _SHARE)
        self._judge()
        self._keep_reserve()

    def _judge(self) -> None:
        enough = self._low if self.refusal is None else self._low + self._low // 8
        if self._free >= enough:
            if self.refusal is not None:
                log.warning("there is space again", free_bytes=self._free)
            self.refusal = None
            return
        if self.refusal is None:
            log.error(
                "the disk of the log is nearly full: writes are refused",
                free=self._free, directory=str(self._directory),
            )  # fmt: skip
        self.refusal = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the disk of the log has {self._free / _MIB:.1f} MiB left, and "
            f"{self._low / _MIB:.1f} MiB are kept for what makes room",
        )

    def _keep_reserve(self) -> None:
        size = min(self._low // _RESERVE_SHARE, _RESERVE_BYTES_MAX)
        if self._reserved and self._free < size:
            self._give_up()
        elif not self._reserved and size and self._free >= 2 * self._low:
            self._make(size)

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            self._files.unlink(self._directory / NAME)
            self._reserved = False
            log.warning("the reserve is given up", reserve=NAME)

    def _make(self, size: int) -> None:
        path = self._directory / NAME
        with contextlib.suppress(OSError):
            file = self._files.create(path)
            self._reserved = True
            try:
                self._files.allocate(file, size)
            except OSError:
                self._give_up()
            finally:
                self._files.close(file)
