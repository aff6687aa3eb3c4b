"""An entry: one record batch in a segment, and the 48 bytes that vouch for it.

The problem. A segment file is used again and again, so behind every new entry old ones
lie, whole and with right checksums. After a power cut any part of the last write may be
there and any part missing: a new header before an old batch, for instance, and with
batches of one size the old batch stands exactly where the new one belongs.

The idea. The header, under a checksum of its own, names the segment's *generation* (its
sequence number, which is never used twice) and the *checksum of its batch*. So a header
of another generation is no entry, and a batch that is not this header's is no batch.
The two fields of a batch that its own CRC-32C leaves out, base offset and leader epoch,
are in the header as well: all of an entry is covered.

``synced_below`` says how much of the segment was durable when the entry was written. It
answers the one hard question of recovery: an entry that does not verify, and behind it
one that does. If the later one was written when the earlier was durable already, then
acknowledged data are damaged. If not, both are of one unfinished write. The header's
checksum is seeded with the entry's position, so that an entry verifies in its own place
only: a copy of one inside a batch, or a write that the disk misdirected, is no entry.

    offset  0 u32 magic      4 u64 generation   12 u32 synced below
           16 u32 topic     20 i32 partition    24 i64 base offset
           32 i32 epoch     36 u32 length       40 u32 CRC of batch    44 u32 checksum

The price. 48 bytes and 0.13 us of checksum per batch.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.protocol.errors import KafkaError
from broker.records.batch import BatchHeader
from broker.records.layout import (
    CHECKED_AT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    PLACED,
    TIMED,
)
from broker.records.layout import MAGIC as BATCH_MAGIC
from broker.storage.files import Buffer
from broker.storage.layout import SECTOR_BYTES

MAGIC: Final = 0x1E6B57A1  # "lakelog's entry, version 1"; a new layout is a new magic
ENTRY_HEADER_BYTES: Final = 48

HEAD: Final = struct.Struct("<IQIIiqiII")
CHECKSUM: Final = struct.Struct("<I")
MARK: Final = struct.Struct("<IQ")
MAGIC_BYTES: Final = struct.pack("<I", MAGIC)
_ENTRY: Final = struct.Struct("<IQIIiqiIII")
_POSITION_MASK: Final = 0xFFFFFFFF


class Append:
    """A batch on its way to the disk, and what to call when it is there.

    ``done`` runs on the loop, once, in the order of the appends. Then either ``error``
    is set, or the batch is durable and ``location`` says where.
    """

    __slots__ = (
        "base_offset", "batch", "done", "error", "header", "last_offset",
        "location", "max_timestamp", "partition", "topic_number",
    )  # fmt: skip

    def __init__(
        self,
        topic_number: TopicNumber,
        partition: PartitionNumber,
        batch: Buffer,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        done: Callable[["Append"], None],
    ) -> None:
        self.topic_number = topic_number
        self.partition = partition
        self.batch = batch
        self.header = header
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.done = done
        self.location = -1
        self.error: KafkaError | None = None


class Entry(NamedTuple):
    """A verified entry. ``position`` is that of its batch in the file."""

    topic_number: TopicNumber
    partition: PartitionNumber
    base_offset: int
    last_delta: int
    max_timestamp: int
    position: int
    length: int
    synced_below: int


def location_of(sequence: int, position: int) -> int:
    """Where a batch lies: the segment's sequence and the position in its file."""
    return sequence << 32 | position


def sequence_of(location: int) -> int:
    return location >> 32


def position_of(location: int) -> int:
    return location & _POSITION_MASK


def mark_of(generation: int) -> bytes:
    """The bytes with which every entry of this generation starts, and no other."""
    return MARK.pack(MAGIC, generation)


def pack_entry(
    append: Append, generation: int, synced_below: int, position: int
) -> bytes:
    """The header of an entry; the fields are read from the batch as it will stand."""
    batch = append.batch
    base, length, epoch, magic, crc = PLACED.unpack_from(batch)
    assert magic == BATCH_MAGIC, "not a batch of this format"
    assert base == append.base_offset, "the batch was not given its offset"
    assert length + LOG_OVERHEAD_BYTES == len(batch), "not one whole batch"
    head = HEAD.pack(
        MAGIC, generation, synced_below, append.topic_number, append.partition,
        base, epoch, len(batch), crc,
    )  # fmt: skip
    return head + CHECKSUM.pack(crc32c(head, position))


def moved_head(view: memoryview, entry: Entry, generation: int, position: int) -> bytes:
    """The header of a verified entry of ``view`` for another segment, at ``position``.

    It says that nothing before it was durable: nobody reads there before all is.
    """
    _, _, epoch, _, crc = PLACED.unpack_from(view, entry.position)
    head = HEAD.pack(
        MAGIC, generation, 0, entry.topic_number, entry.partition,
        entry.base_offset, epoch, entry.length, crc,
    )  # fmt: skip
    return head + CHECKSUM.pack(crc32c(head, position))


def read_entry(
    view: memoryview, position: int, generation: int, limit: int, place: int = -1
) -> Entry | str:
    """The entry that starts at ``position`` and ends by ``limit``, verified whole.

    ``place``: its position in the segment file, if ``view`` is not all of the file.

    Returns what is wrong with it, in words, if it does not verify; an empty text if
    there is nothing of this generation at all.
    """
    body = position + ENTRY_HEADER_BYTES
    if body > limit:
        return ""
    magic, found, synced, topic, partition, base, epoch, length, crc, checksum = (
        _ENTRY.unpack_from(view, position)
    )
    if magic != MAGIC or found != generation:
        return ""
    if crc32c(view[position : body - 4], position if place < 0 else place) != checksum:
        return "the entry's header fails its checksum"
    end = body + length
    if length < HEADER_BYTES or end > limit:
        return "the entry does not fit"
    head = TIMED.unpack_from(view, body)
    if head[:5] != (base, length - LOG_OVERHEAD_BYTES, epoch, BATCH_MAGIC, crc):
        return f"the batch of {name_of(topic, partition, base)} is not the entry's"
    if crc32c(view[body + CHECKED_AT : end]) != crc:
        return f"the batch of {name_of(topic, partition, base)} fails its checksum"
    return Entry(topic, partition, base, head[6], head[8], body, length, synced)


def claimed_end(view: memoryview, position: int, generation: int, limit: int) -> int:
    """How far the entry that starts at ``position`` reaches, by its header; if that
    does not verify, how far the header would reach. At most ``limit``."""
    body = position + ENTRY_HEADER_BYTES
    if body > limit:
        return limit
    magic, found, *_, length, _, checksum = _ENTRY.unpack_from(view, position)
    is_header = (magic, found) == (MAGIC, generation) and (
        crc32c(view[position : body - 4], position) == checksum
    )
    return min(body + length, limit) if is_header else body


class Claim(NamedTuple):
    """What an entry's header says of a batch that does not verify: the offsets [base,
    end); ``next_position`` is where the entry ends. ``is_counted``: the batch says how
    many these are, beyond doubt; else there was one at least."""

    key: TopicPartition
    base: int
    end: int
    next_position: int
    is_counted: bool


def claim_of(
    view: memoryview, position: int, generation: int, limit: int
) -> Claim | None:
    """What the entry that starts at ``position`` was to be; None if its header does not
    verify.

    How many offsets it has only the batch says, twice, and either may be damaged: the
    larger counts that the batch has room for (a byte for each, if compressed), or one.
    It is beyond doubt if both are the same and stand in the sector of the batch's CRC,
    which is the one that the entry's header names: so what was there before that sector
    was written is not taken for it.
    """
    body = position + ENTRY_HEADER_BYTES
    if body > limit:
        return None
    fields = _ENTRY.unpack_from(view, position)
    magic, found, _, topic, partition, base, _, length, crc, checksum = fields
    if (magic, found) != (MAGIC, generation) or length < HEADER_BYTES:
        return None
    if crc32c(view[position : body - 4], position) != checksum:
        return None
    counts, is_counted = [1], False
    if body + HEADER_BYTES <= limit:
        head = HEADER.unpack_from(view, body)
        counts += [n for n in (head[6] + 1, head[-1]) if 0 < n <= length]
        is_counted = head[4] == crc and head[6] + 1 == head[-1]
        is_counted &= _is_in_one_sector(body + CRC_AT, body + HEADER_BYTES)
    end = min(body + length, limit)
    return Claim((topic, partition), base, base + max(counts), end, is_counted)


def _is_in_one_sector(start: int, end: int) -> bool:
    return start // SECTOR_BYTES == (end - 1) // SECTOR_BYTES


def name_of(
    topic_number: TopicNumber, partition: PartitionNumber, base_offset: int
) -> str:
    """How messages name a batch (topics are known by number down here)."""
    return f"topic {topic_number} partition {partition} offset {base_offset}"
