"""Being the one compactor that writes to a warehouse, and seeing how full its disk is.

The problem: the lease (`jobs.lease`) is in the catalog, and keeps compactors of one
data directory apart. A copy of that has a catalog of its own, and its tables may lie in
the same warehouse; and under a compactor that runs a disk may go, and another one stand
in its place. The idea: who has the lease locks a file in the warehouse, too, and looks
before each commit whether that file is still the one that lies there. It goes with the
lease, so that who lost that stands in nobody's way, and it keeps the disk from being
unmounted. The price: a look at a file before each commit; and a compactor that was
stopped for longer than its lease holds up the next one until it goes on or is killed.

Tables that lie in the data directory need no lock. On another disk than the log they
make it no room, so that one has a mark of its own, below which nothing is added: what
makes room there are commits, too.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from broker.status.schema import CompactorStatus, DiskState
from broker.storage.files import Files
from broker.storage.warehouse import DirectoryRefused, check_warehouse
from jobs.further import LOCK, FurtherWarehouses
from jobs.held_file import HeldFile
from jobs.space import full_sentence, low_mark, volume
from lakehouse.location import warehouse_of

log = structlog.get_logger("lakelog.compactor")


class Warehouse:
    """Where the tables of a data directory lie, and whether it is ours to write to."""

    def __init__(
        self,
        files: Files,
        data_dir: Path,
        holds_lease: Callable[[], bool],
        low_bytes: int,
    ) -> None:
        self._data_dir, self._low_bytes = data_dir, low_bytes
        self._holds_lease = holds_lease
        self._link = data_dir / "tables"
        self.further = FurtherWarehouses(files, str(self._link), low_bytes)
        self._mark = HeldFile(files, self._link / LOCK)
        self.disk = DiskState()
        """That of the tables, as of the last look at it; its low mark is 0 where it is
        the log's, which the broker has one for."""
        self.refusal: str | None = None
        """Why it is not ours although we have the lease, as of the last asking."""

    def is_ours(self) -> bool:
        """Whether anything may be committed to tables now. Blocks for a moment."""
        if not self._holds_lease():
            self.close()
            return False
        before = self.refusal
        is_held = self._mark.is_there()
        self.refusal = (None if is_held else self._take()) or self.further.take()
        if self.refusal is not None and self.refusal != before:
            log.error("nothing is written to tables", why=self.refusal)
        return self.refusal is None

    def full(self) -> str | None:
        """One sentence if tables lie on a disk of their own which is nearly full."""
        try:
            tables, log_ = volume(self._link), volume(self._data_dir)
        except OSError:
            self.disk = DiskState()
            return None  # whoever writes there will tell
        self.further.look(log_)
        mark = low_mark(tables, log_, self._low_bytes)
        self.disk = DiskState(tables.free, tables.total, mark)
        place = str(warehouse_of(self._data_dir))
        return full_sentence(place, tables, mark)

    def kept_out(self, status: CompactorStatus) -> CompactorStatus:
        """``status`` of one to whom it is not, as of the last asking."""
        if self.refusal is None:
            state = "another compactor has the lease"
            return replace(status, state=state, problems=())
        return replace(status, state="kept out", problems=(self.refusal,))

    def close(self) -> None:
        """Another one may have it."""
        self.refusal = None
        self._mark.release()
        self.further.close()

    def _take(self) -> str | None:
        """Lock it if that is needed; why it is not ours."""
        try:
            check_warehouse(self._data_dir)
            if not self._link.is_symlink():
                return None
            if not self._mark.take():
                place = warehouse_of(self._data_dir)
                return f"the warehouse {place} is in use by another compactor"
            check_warehouse(self._data_dir)  # nothing moves it from now on unseen
        except (DirectoryRefused, OSError) as error:
            self._mark.release()
            return str(error)
        is_there = self._mark.is_there()
        return None if is_there else f"{self._link} leads elsewhere now"
