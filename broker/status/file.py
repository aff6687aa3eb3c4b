"""A status as a small file: replaced as a whole by its part, read by the others.

The problem: a reader must never see half a status, and a full disk must not silence
the part just when it counts. The idea: the file is written aside and renamed; where
there is no room for a second file, the first is overwritten in place (spaces at its end
keep room for that). A file that has not been written for `STALE_S` is of a part that is
gone or hangs.

The price: it is not synced; nobody's correctness depends on it.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from broker.status.schema import BrokerStatus, CompactorStatus

STALE_S: Final = 10.0
PADDED_BYTES: Final = 8 << 10

Status = TypeVar("Status", BrokerStatus, CompactorStatus)

_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {
    kind: TypeAdapter(kind) for kind in (BrokerStatus, CompactorStatus)
}
_NAMES: Final = {BrokerStatus: "broker.json", CompactorStatus: "compactor.json"}


class StatusFiles(Protocol):
    """What is asked of `broker.storage.files.Files`."""

    def create(self, path: Path) -> int: ...
    def open(self, path: Path) -> int: ...
    def pwritev(self, file: int, parts: Sequence[Any], position: int) -> None: ...
    def rename(self, old: Path, new: Path) -> None: ...
    def close(self, file: int) -> None: ...


def path_of(data_dir: Path, kind: type[BrokerStatus] | type[CompactorStatus]) -> Path:
    """Where a part of the data directory writes its status."""
    return data_dir / "run" / _NAMES[kind]


def encode(status: BrokerStatus | CompactorStatus) -> bytes:
    """The status as JSON, padded with spaces."""
    return _ADAPTERS[type(status)].dump_json(status).ljust(PADDED_BYTES)


def decode(data: bytes, kind: type[Status]) -> Status | None:
    """What `encode` gave, by this version or another; None if it is no status."""
    try:
        found: Status = _ADAPTERS[kind].validate_json(data)
    except ValidationError:
        return None
    return found


def replace(files: StatusFiles, path: Path, encoded: bytes) -> None:
    """Put a status in the place of the one before. Raises OSError if it cannot be."""
    new = path.with_suffix(".new")
    try:
        _write(files, files.create(new), encoded)
        files.rename(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            _write(files, files.open(path), encoded)
        raise


def _write(files: StatusFiles, file: int, content: bytes) -> None:
    try:
        files.pwritev(file, [content], 0)
    finally:
        files.close(file)


def read(data_dir: Path, kind: type[Status], now_s: float) -> Status | None:
    """The status that a part wrote; None if there is none, or it is stale or broken.

    ``now_s``: seconds since the epoch. Blocks for a moment.
    """
    path = path_of(data_dir, kind)
    try:
        if now_s - os.stat(path).st_mtime > STALE_S:
            return None
        return decode(path.read_bytes(), kind)
    except OSError:
        return None
