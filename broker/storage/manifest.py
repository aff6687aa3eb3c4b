"""The checkpoint file: what need not be replayed, and which segments count.

The problem. A segment that was released still looks whole until its file is used again,
and a segment whose file was lost looks like nothing at all. Neither can be seen from
the segment files themselves. And replaying everything at each start would take for
ever.

The idea. One small object, replaced as a whole (see `objects`), says: up to which
position the state of the partitions is in ``payload``; which segments up to number
``known`` are alive. One that is missing from that list was released, one that is on it
and not on disk is lost, and every number above ``known`` belongs to a segment begun
since. A segment's file is used again only after a manifest without it is durable.

Odd numbers from ``spaced_from`` on belong to carried segments (`carry.py`), which are
whole before they are listed: one that is not on the list counts for nothing, whatever
its number. The first version of the file knew none; below ``spaced_from`` any number
may be the writer's.

A damaged segment that was never sealed has its end in ``ends``: the start that found it
was told by the committed position how far it was durable and where the refused begins;
from then on that is another segment's. The second version of the file knew no ends.

A compactor or check that is older than the file calls it damaged ("not the shape of
one") and takes nothing: an upgrade changes them together with the broker.

The price. The payload is written again at each release; it is the producers' state,
some kilobytes, once per 64 MiB of log.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from crc32c import crc32c

from broker.storage.objects import Objects
from broker.storage.segment import is_odd

NAME: Final = "checkpoint"
UNSPACED: Final = 1 << 62
"""Above all numbers: any that is there may be the writer's."""

_HEAD: Final = struct.Struct("<8sQQQIIQQI")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"LAKECKP3"
_EARLIER: Final = {
    b"LAKECKP1": (struct.Struct("<8sQQQIIQ"), (UNSPACED, 0)),
    b"LAKECKP2": (struct.Struct("<8sQQQIIQQ"), (0,)),
}
"""Magic -> the head of an earlier form, and what stands for the fields it had not."""


class ManifestDamaged(OSError):
    """The checkpoint file does not verify."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything before (``sequence``, ``position``) is in ``payload``.

    ``payload`` is None until somebody made a checkpoint. ``more`` is written behind it
    and read back as a part of it: what is large is not joined first. ``ends``: where
    the entries end in those that are alive and will never be sealed.
    """

    sequence: int = 0
    position: int = 0
    known: int = 0
    live: frozenset[int] = frozenset()
    payload: bytes | None = None
    more: tuple[bytes, ...] = ()
    spaced_from: int = UNSPACED
    ends: Mapping[int, int] = field(default_factory=dict)

    def is_carried(self, sequence: int) -> bool:
        """Whether it is the number of a segment that holds carried batches."""
        return sequence >= self.spaced_from and is_odd(sequence)

    def counts(self, sequence: int) -> bool:
        """Whether a segment found on disk is one of the log's."""
        if sequence in self.live:
            return True
        return sequence > self.known and not self.is_carried(sequence)

    def with_live(self, live: frozenset[int], known: int) -> "Manifest":
        ends = {each: end for each, end in self.ends.items() if each in live}
        return replace(self, live=live, known=known, ends=ends)


def pack(manifest: Manifest) -> bytes:
    return b"".join(pieces(manifest))


def pieces(manifest: Manifest) -> list[bytes]:
    """What the file holds, piece by piece."""
    payload = [manifest.payload or b"", *manifest.more]
    head = _HEAD.pack(
        _MAGIC, manifest.sequence, manifest.position, manifest.known,
        len(manifest.live), manifest.payload is not None, sum(map(len, payload)),
        manifest.spaced_from, len(manifest.ends),
    )  # fmt: skip
    numbers = sorted(manifest.live)
    for pair in sorted(manifest.ends.items()):
        numbers += pair
    head += struct.pack(f"<{len(numbers)}Q", *numbers)
    checksum = 0
    for piece in payload:
        checksum = crc32c(piece, checksum)
    return [head, _CHECKSUM.pack(crc32c(head)), *payload, _CHECKSUM.pack(checksum)]


def unpack(data: bytes) -> Manifest:
    """Raises ManifestDamaged if a single bit is not as it was written."""
    magic = data[: len(_MAGIC)]
    form, absent = _EARLIER.get(magic, (_HEAD, ()))
    if len(data) < form.size:
        raise ManifestDamaged("the checkpoint is cut off")
    fields = (*form.unpack_from(data), *absent)[1:]
    sequence, position, known, count, present, length, spaced_from, ends = fields
    end = form.size + 8 * (count + 2 * ends)
    if (magic != _MAGIC and magic not in _EARLIER) or (
        len(data) != end + length + 2 * _CHECKSUM.size
    ):
        raise ManifestDamaged("the checkpoint has not the shape of one")
    payload = data[end + _CHECKSUM.size : -_CHECKSUM.size]
    _check(data[:end], data[end : end + _CHECKSUM.size])
    _check(payload, data[-_CHECKSUM.size :])
    numbers = struct.unpack_from(f"<{count + 2 * ends}Q", data, form.size)
    pairs = zip(numbers[count::2], numbers[count + 1 :: 2], strict=True)
    live, kept = frozenset(numbers[:count]), payload if present else None
    return Manifest(
        sequence, position, known, live, kept,
        spaced_from=int(spaced_from), ends=dict(pairs),
    )  # fmt: skip


def _check(data: bytes, checksum: bytes) -> None:
    if _CHECKSUM.pack(crc32c(data)) != checksum:
        raise ManifestDamaged("the checkpoint fails its checksum")


def read_manifest(objects: Objects) -> Manifest | None:
    """None if there is none. Raises ManifestDamaged, OSError."""
    data = objects.get(NAME)
    return None if data is None else unpack(data)


def write_manifest(objects: Objects, manifest: Manifest) -> None:
    """Replace it; the new one would survive a power cut then. Raises OSError."""
    objects.replace(NAME, pieces(manifest))
