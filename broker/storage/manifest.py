"""The checkpoint file: what need not be replayed, and which segments count.

The problem. A segment that was let go still looks whole until its file is used again,
and a segment whose file was lost looks like nothing at all. Neither can be told from
the segment files themselves. And replaying everything at each start would take for
ever.

The idea. One small file, replaced as a whole (write aside, sync, rename, sync the
directory), says: up to which position the state of the partitions is in ``payload``;
which segments up to number ``known`` are alive. One that is missing from that list was
let go, one that is on it and not on disk is lost, and every number above ``known``
belongs to a segment begun since. A segment's file is used again only after a manifest
without it is durable.

The price. The payload is written again at each release; it is the producers' state,
some kilobytes, once per 64 MiB of log.
"""

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from crc32c import crc32c

from broker.failpoints import passing
from broker.storage.files import Files

NAME: Final = "checkpoint"
NEW_NAME: Final = "checkpoint.new"

_HEAD: Final = struct.Struct("<8sQQQIIQ")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"LAKECKP1"


class ManifestDamaged(OSError):
    """The checkpoint file does not verify."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything before (``sequence``, ``position``) is in ``payload``.

    ``payload`` is None until somebody made a checkpoint.
    """

    sequence: int = 0
    position: int = 0
    known: int = 0
    live: frozenset[int] = frozenset()
    payload: bytes | None = None

    def counts(self, sequence: int) -> bool:
        """Whether a segment found on disk is one of the log's."""
        return sequence > self.known or sequence in self.live

    def with_live(self, live: frozenset[int], known: int) -> "Manifest":
        return replace(self, live=live, known=known)


def pack(manifest: Manifest) -> bytes:
    payload = manifest.payload or b""
    head = _HEAD.pack(
        _MAGIC, manifest.sequence, manifest.position, manifest.known,
        len(manifest.live), manifest.payload is not None, len(payload),
    )  # fmt: skip
    live = sorted(manifest.live)
    head += struct.pack(f"<{len(live)}Q", *live)
    return b"".join(
        (head, _CHECKSUM.pack(crc32c(head)), payload, _CHECKSUM.pack(crc32c(payload)))
    )


def unpack(data: bytes) -> Manifest:
    """Raises ManifestDamaged if a single bit is not as it was written."""
    if len(data) < _HEAD.size:
        raise ManifestDamaged("the checkpoint is cut off")
    magic, sequence, position, known, count, present, length = _HEAD.unpack_from(data)
    end = _HEAD.size + 8 * count
    if magic != _MAGIC or len(data) != end + length + 2 * _CHECKSUM.size:
        raise ManifestDamaged("the checkpoint has not the shape of one")
    payload = data[end + _CHECKSUM.size : -_CHECKSUM.size]
    _check(data[:end], data[end : end + _CHECKSUM.size])
    _check(payload, data[-_CHECKSUM.size :])
    live = frozenset(struct.unpack_from(f"<{count}Q", data, _HEAD.size))
    return Manifest(sequence, position, known, live, payload if present else None)


def _check(data: bytes, checksum: bytes) -> None:
    if _CHECKSUM.pack(crc32c(data)) != checksum:
        raise ManifestDamaged("the checkpoint fails its checksum")


def read_manifest(files: Files, directory: Path) -> Manifest | None:
    """None if there is none. Raises ManifestDamaged."""
    try:
        file = files.open_read(directory / NAME)
    except FileNotFoundError:
        return None
    try:
        return unpack(files.pread(file, files.size(file), 0))
    finally:
        files.close(file)


def write_manifest(files: Files, directory: Path, manifest: Manifest) -> None:
    """Replace the file; returns when the new one would survive a power cut."""
    file = files.create(directory / NEW_NAME)
    try:
        files.pwritev(file, [pack(manifest)], 0)
        files.fdatasync(file)
    finally:
        files.close(file)
    passing("wal.checkpoint")
    files.rename(directory / NEW_NAME, directory / NAME)
    files.fsync_dir(directory)
