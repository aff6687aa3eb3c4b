"""All parts in one report."""

import asyncio
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from admin_api.health.reasons import problems_of, unreachable, warnings_of
from admin_api.kafka import Kafka
from admin_api.lake import Lake
from admin_api.overview.schemas import (
    BrokerHealth,
    CompactorHealth,
    DiskHealth,
    Health,
    Status,
    TablesDiskHealth,
)
from admin_api.status import StatusFiles
from broker.status.schema import BrokerStatus, CompactorStatus
from lakehouse.location import warehouse_of

LOOK_S: Final = 2.0
"""So long is waited for the disk of tables that lie elsewhere."""


async def report(kafka: Kafka, status: StatusFiles, lake: Lake) -> Health:
    """How all parts are now; waits two seconds at most for the broker, and for a disk
    of tables that hangs."""
    silent, tables_disk = await asyncio.gather(
        unreachable(kafka, status, lake), _tables_disk(status)
    )
    broker, compactor, disk = await asyncio.to_thread(_read, status)
    reasons = [*silent, *problems_of(broker)]
    warnings = warnings_of(broker, compactor)
    return Health(
        status=_status(reasons, warnings),
        reasons=reasons,
        warnings=warnings,
        broker=_broker(broker, answers=not silent),
        compactor=None if compactor is None else _compactor(compactor),
        disk=disk,
        tables_disk=tables_disk,
    )


def _read(
    status: StatusFiles,
) -> tuple[BrokerStatus | None, CompactorStatus | None, DiskHealth | None]:
    return status.broker(), status.compactor(), disk_of(status.data_dir)


async def _tables_disk(status: StatusFiles) -> TablesDiskHealth | None:
    """As `tables_disk_of`; None as well if the disk does not say it in `LOOK_S`."""
    look = partial(tables_disk_of, status.data_dir)
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            found: TablesDiskHealth | None = await status.tables_disk.result(look)
            return found
    return None


def disk_of(data_dir: Path) -> DiskHealth | None:
    """The file system of a directory; None if that is not there."""
    try:
        found = shutil.disk_usage(data_dir)
    except OSError:
        return None
    return DiskHealth(
        data_dir=str(data_dir.absolute()),
        total_bytes=found.total,
        free_bytes=found.free,
    )


def tables_disk_of(data_dir: Path) -> TablesDiskHealth | None:
    """The file system of tables that lie elsewhere; None if they do not, or if nobody
    can tell."""
    if not (data_dir / "tables").is_symlink():
        return None
    place = warehouse_of(data_dir)
    try:
        found = shutil.disk_usage(place)
    except OSError:
        return None
    return TablesDiskHealth(
        warehouse=str(place), total_bytes=found.total, free_bytes=found.free
    )


def _status(reasons: list[str], warnings: list[str]) -> Status:
    if reasons:
        return Status.DOWN
    return Status.DEGRADED if warnings else Status.HEALTHY


def _broker(said: BrokerStatus | None, *, answers: bool) -> BrokerHealth:
    return BrokerHealth(
        answers=answers,
        state=said.state if said else None,
        pid=said.pid if said else None,
        started_ms=said.started_ms if said else None,
        topics=said.topics if said else None,
        partitions=said.partitions if said else None,
        connections=said.connections_open if said else None,
        wal_segments=said.wal.segments if said else None,
        wal_bytes=said.wal.bytes if said else None,
    )


def _compactor(said: CompactorStatus) -> CompactorHealth:
    return CompactorHealth(
        state=said.state,
        pid=said.pid,
        pending_bytes=said.pending_bytes,
        oldest_pending_ms=said.oldest_pending_ms,
        stuck=said.stuck,
        log_bytes_total=said.counters.get("log_bytes_total", 0),
        file_bytes_total=said.counters.get("file_bytes_total", 0),
    )
