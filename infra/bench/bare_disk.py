"""What the disk does by itself: writes of one record, each synced, at a steady pace.

The problem: some disks stall for tenths of a second now and then, whoever writes. The
idea: the same write and sync that a broker needs, with no broker, beside the figures
that depend on it.
"""

import os
import time
from pathlib import Path

RECORD_BYTES = 1000
FILE_BYTES = 64 << 20


def paced_syncs(folder: Path, rate: int, seconds: float) -> list[float]:
    """Milliseconds of each write and fdatasync, ascending.

    The file is written once before, so that no sync has blocks to allocate.
    """
    path = folder / "bare-disk"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, bytes(FILE_BYTES), 0)
        os.fsync(file)
        return sorted(_paced(file, rate, seconds))
    finally:
        os.close(file)
        path.unlink()


def _paced(file: int, rate: int, seconds: float) -> list[float]:
    record, took_ms = bytes(RECORD_BYTES), []
    begun = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        started = time.monotonic()
        os.pwrite(file, record, number * RECORD_BYTES % (FILE_BYTES - RECORD_BYTES))
        os.fdatasync(file)
        took_ms.append((time.monotonic() - started) * 1e3)
    return took_ms
