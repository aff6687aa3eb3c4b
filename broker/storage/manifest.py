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

A damaged segment that was never sealed has its extent in ``damaged``: the start that
found it was told by the committed position how far it was durable and where the refused
begins; from then on that is another segment's. And what the disk could not read then
may be readable the next time, when its offsets were given again: it stays lost. In the
file each number of an extent is a pair with the segment's: start and end of each hole,
then the end. The second version of the file knew none; a reader that knows no holes
takes the last pair of a segment, which is its end.

A start that has no manifest finds numbers missing of which nobody knows whether they
were released. They stay on the list until a checkpoint, as a lost segment does, and are
``unexplained``, so that no later start calls them lost: in the file each of them has
one pair, with 0. So has, if there is a checkpoint, the number that a start left out
which found less than was written behind it. An older reader takes that for the end of a
file that is not there.

A compactor or check that is older than the file calls it damaged ("not the shape of
one") and takes nothing: an upgrade changes them together with the broker.

The price. The payload is written again at each release; it is the producers' state,
some kilobytes, once per 64 MiB of log.
"""

import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from crc32c import crc32c

from broker.storage.objects import Objects
from broker.storage.segment import DamagedExtent, is_odd

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
    and read back as a part of it: what is large is not joined first. ``damaged``: of
    those that are alive and will never be sealed. ``unexplained``: of those that count
    as alive, the numbers that were missing when the manifest was lost.
    """

    sequence: int = 0
    position: int = 0
    known: int = 0
    live: frozenset[int] = frozenset()
    payload: bytes | None = None
    more: tuple[bytes, ...] = ()
    spaced_from: int = UNSPACED
    damaged: Mapping[int, DamagedExtent] = field(default_factory=dict)
    unexplained: frozenset[int] = frozenset()

    def is_carried(self, sequence: int) -> bool:
        """Whether it is the number of a segment that holds carried batches."""
        return sequence >= self.spaced_from and is_odd(sequence)

    def counts(self, sequence: int) -> bool:
        """Whether a segment found on disk is one of the log's."""
        if sequence in self.live:
            return True
        return sequence > self.known and not self.is_carried(sequence)

    def with_live(self, live: frozenset[int], known: int) -> "Manifest":
        damaged = {each: it for each, it in self.damaged.items() if each in live}
        unexplained = self.unexplained & live
        return replace(
            self, live=live, known=known, damaged=damaged, unexplained=unexplained
        )


def pack(manifest: Manifest) -> bytes:
    return b"".join(pieces(manifest))


def pieces(manifest: Manifest) -> list[bytes]:
    """What the file holds, piece by piece."""
    payload = [manifest.payload or b"", *manifest.more]
    pairs = [
        number
        for sequence, extent in sorted(manifest.damaged.items())
        for place in (*chain.from_iterable(extent.holes), extent.end)
        for number in (sequence, place)
    ]
    pairs += [number for each in sorted(manifest.unexplained) for number in (each, 0)]
    head = _HEAD.pack(
        _MAGIC, manifest.sequence, manifest.position, manifest.known,
        len(manifest.live), manifest.payload is not None, sum(map(len, payload)),
        manifest.spaced_from, len(pairs) // 2,
    )  # fmt: skip
    numbers = sorted(manifest.live) + pairs
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
    live, kept = frozenset(numbers[:count]), payload if present else None
    places = _places(numbers[count:])
    unexplained = frozenset(each for each, found in places.items() if found == [0])
    return Manifest(
        sequence, position, known, live, kept,
        spaced_from=int(spaced_from), damaged=_damaged(places, unexplained),
        unexplained=unexplained,
    )  # fmt: skip


def _places(numbers: Sequence[int]) -> dict[int, list[int]]:
    """The places by segment, out of pairs of a segment and one of its places."""
    places: dict[int, list[int]] = {}
    for sequence, place in zip(numbers[::2], numbers[1::2], strict=True):
        places.setdefault(sequence, []).append(place)
    return places


def _damaged(
    places: Mapping[int, Sequence[int]], unexplained: Set[int]
) -> dict[int, DamagedExtent]:
    return {
        sequence: DamagedExtent(end, tuple(zip(holes[::2], holes[1::2], strict=True)))
        for sequence, (*holes, end) in places.items()
        if sequence not in unexplained
    }


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
