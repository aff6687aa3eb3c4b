"""The horizon: how far the log is durable, for other processes to see.

The compactor reads the segment that the broker is writing. It must not see a batch that
is not durable yet, so after each group the broker writes 32 bytes into a small file:
the segment's sequence and the end of what was synced. The file is never synced itself.
After a kill it is exact; after a power cut it may be older than the truth or
unreadable, never ahead of it, and then recovery does not need it.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage.files import Files

NAME: Final = "horizon"

_FORM: Final = struct.Struct("<8sQQ")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"LAKEHRZ1"
_READ_ATTEMPTS: Final = 8  # a reader may meet a write half way; the next look is fine


class Horizon(NamedTuple):
    """Everything of segment ``sequence`` below ``position`` is durable."""

    sequence: int
    position: int


class HorizonFile:
    """The writer's end; one thread writes."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        path = directory / NAME
        try:
            self._file = files.open(path)
        except FileNotFoundError:
            self._file = files.create(path)

    def write(self, sequence: int, position: int) -> None:
        record = _FORM.pack(_MAGIC, sequence, position)
        self._files.pwritev(self._file, [record + _CHECKSUM.pack(crc32c(record))], 0)

    def close(self) -> None:
        self._files.close(self._file)


def read_horizon(files: Files, directory: Path) -> Horizon | None:
    """None if there is none, or none that verifies."""
    try:
        file = files.open_read(directory / NAME)
    except FileNotFoundError:
        return None
    try:
        for _ in range(_READ_ATTEMPTS):
            found = _parse(files.pread(file, _FORM.size + _CHECKSUM.size, 0))
            if found is not None:
                return found
        return None
    finally:
        files.close(file)


def _parse(data: bytes) -> Horizon | None:
    if len(data) < _FORM.size + _CHECKSUM.size:
        return None
    record, checksum = data[: _FORM.size], data[_FORM.size :]
    if _CHECKSUM.pack(crc32c(record)) != checksum:
        return None
    magic, sequence, position = _FORM.unpack(record)
    return Horizon(sequence, position) if magic == _MAGIC else None
