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
GROUPS_A_SECOND = 1000
"""Who gathers records while a sync goes on has about so many to write at most."""


def paced_figures(folder: Path, records: int, seconds: float) -> dict[str, float]:
    """p50 and p99 in ms, where so many records a second are to be made durable."""
    rate = min(records, GROUPS_A_SECOND)
    found = paced_syncs(folder, rate, seconds, RECORD_BYTES * records // rate)
    return {"p50": found[len(found) // 2], "p99": found[len(found) * 99 // 100]}


def paced_syncs(
    folder: Path, rate: int, seconds: float, size: int = RECORD_BYTES
) -> list[float]:
    """Milliseconds of each write of ``size`` bytes and fdatasync, ascending.

    The file is written once before, so that no sync has blocks to allocate.
    """
    path = folder / "bare-disk"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, bytes(FILE_BYTES), 0)
        os.fsync(file)
        return sorted(_paced(file, rate, seconds, size))
    finally:
        os.close(file)
        path.unlink()


def _paced(file: int, rate: int, seconds: float, size: int) -> list[float]:
    record, took_ms = bytes(size), []
    begun = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        started = time.monotonic()
        os.pwrite(file, record, number * size % (FILE_BYTES - size))
        os.fdatasync(file)
        took_ms.append((time.monotonic() - started) * 1e3)
    return took_ms
