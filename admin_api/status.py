"""What the broker and the compactor say of themselves, as the endpoints ask for it.

The files and what is in them are fixed in `broker.status`.
"""

import time
from pathlib import Path
from typing import Any

from broker.shared_look import SharedLook
from broker.status import file
from broker.status.schema import BrokerStatus, CompactorStatus


class StatusFiles:
    """Reads the status files of one data directory; None for one missing or stale."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.tables_disk = SharedLook[Any]()
        """How full the disk of tables is that lie elsewhere; it may hang."""

    def broker(self) -> BrokerStatus | None:
        """The broker's status."""
        return file.read(self.data_dir, BrokerStatus, _now_s())

    def compactor(self) -> CompactorStatus | None:
        """The compactor's status."""
        return file.read(self.data_dir, CompactorStatus, _now_s())


def _now_s() -> float:
    return time.time()  # noqa: TID251  (compared with the files' own times)
