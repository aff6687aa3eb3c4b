"""Old message sets on their way in and out: converted on threads, few at a time.

The problem: a client of Kafka 0.8 to 0.10 may send a megabyte that decompresses to 64,
and fetch batches that do; converting them takes tens of milliseconds and more memory
than was received. The idea: conversions run on threads, and at most ``CONVERSIONS_MAX``
at once in the whole broker, so that the sum of what they take is bounded.

Source: Kafka 3.9 ``LogValidator`` and ``LazyDownConversionRecords``.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import split
from broker.records.layout import MAGIC, MAGIC_AT
from broker.records.message_set import first_message_bytes, to_batch, to_message_set
from broker.runtime.budget import Reservation
from broker.runtime.partitions.fetches import check_offset, part_of_room
from broker.runtime.partitions.partition import Partition, bare
from broker.runtime.partitions.reads import Place
from broker.runtime.services import Broker

NEWEST_CODE: Final = ErrorCode.INVALID_TIMESTAMP
"""The newest code that clients of message sets know (0.10.0). A newer one is to them an
unknown error, which is said so."""

MAGIC_1_SINCE: Final = 2
"""Of both Produce and Fetch."""

AT_LEAST_ONE_SINCE: Final = 3
"""Version of Fetch whose first message is whole, whatever its size. Before, an answer
ends where the limit is, and a client takes a first message that is cut off for one that
is larger than it can take."""


def known_code(code: ErrorCode) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for one that is too new for message sets."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if code > NEWEST_CODE else code


PIECE_BYTES: Final = 1 << 20
"""Messages are put together in pieces of about so many bytes: each copy holds the
interpreter's lock, and with it the loop."""


class _Found(NamedTuple):
    """Messages, the offset after them, and the size of the first one's batch."""

    pieces: Sequence[Buffer]
    next_offset: int
    batch_bytes: int


async def converted(
    records: Buffer | None, partition: Partition, broker: Broker
) -> Buffer | None:
    """The batch that takes the place of a message set for a partition; anything else as
    it is.

    Raises KafkaError, as ``to_batch``.
    """
    if not records or records[MAGIC_AT : MAGIC_AT + 1] == bytes([MAGIC]):
        return records
    async with broker.conversions:
        loop = asyncio.get_running_loop()
        bytes_max = partition.config.max_message_bytes
        return await loop.run_in_executor(None, to_batch, records, bytes_max)


async def convert_fetched(
    places: Sequence[Place],
    version: int,
    bytes_max: int,
    broker: Broker,
    reservation: Reservation,
    is_heard: Callable[[], bool],
) -> int:
    """Put message sets in the place of the batches that a fetch of version 0 to 3 read.

    What follows a batch that leaves nothing (a gap in the offsets) is read, too: who
    gets no message asks for the same offset for ever.

    ``reservation`` holds what was read, and grows by what that becomes. Where it
    cannot, or has its part of what is left, the answer ends. Returns 0, or the bytes
    that the first messages need.
    """
    room = min(bytes_max, part_of_room(broker.fetched, reservation.bytes))
    nothing_yet = True
    taken = sum(place.size for place in places if place.is_later)
    for place in places:
        if not is_heard():
            return 0
        if place.error is not None or not place.buffers:
            continue
        if room <= 0 and not nothing_yet:
            place.buffers = ()
            continue
        try:
            wanted = max(min(place.bytes_max, room), 1)
            found = await _next_messages(place, version, wanted, broker)
        except KafkaError as error:
            place.error, place.buffers = bare(error), ()
            continue
        limit = _limit(found, place.bytes_max, room, version, nothing_yet)
        kept = _cut(found.pieces, limit)
        size = sum(map(len, kept))
        taken += size
        if not reservation.try_grow(max(taken - reservation.bytes, 0)):
            if nothing_yet:
                return taken
            kept, size, room = (), 0, 0
        place.buffers = kept
        room -= size
        nothing_yet = nothing_yet and not kept
    return 0


def _limit(
    found: _Found, bytes_max: int, room: int, version: int, at_least_one: bool
) -> int:
    """How many bytes of the messages are sent.

    A compressed message may be larger than the batch that it was made of. Whoever asked
    for no less than the batch gets it whole, as from Kafka, or nothing where the answer
    has no room for it: a piece is an error to a client.
    """
    limit = max(min(bytes_max, room), 0)
    first = first_message_bytes(found.pieces[0]) if found.pieces else 0
    too_large = version < AT_LEAST_ONE_SINCE and found.batch_bytes > bytes_max
    if first <= limit or too_large:
        return limit
    return first if at_least_one or first <= room else 0


def _cut(pieces: Sequence[Buffer], limit: int) -> Sequence[Buffer]:
    """The first ``limit`` bytes. What is left of a piece is copied: nothing that is not
    sent stays in memory."""
    kept: list[Buffer] = []
    for piece in pieces:
        if limit <= 0:
            break
        kept.append(piece if len(piece) <= limit else bytes(piece[:limit]))
        limit -= len(piece)
    return kept


async def _next_messages(
    place: Place, version: int, wanted_bytes: int, broker: Broker
) -> _Found:
    """The messages from the place's offset on, of the batches that were read or of the
    first after them that has any; none at the end of the log."""
    partition = place.partition
    assert partition is not None
    magic = 1 if version >= MAGIC_1_SINCE else 0
    while place.buffers:
        buffers, offset = place.buffers, place.offset
        async with broker.conversions:
            found = await asyncio.get_running_loop().run_in_executor(
                None, _messages, buffers, magic, offset, wanted_bytes
            )
        if found.pieces:
            return found
        place.offset = found.next_offset
        place.clear()
        check_offset(partition, place.offset)
        reading = broker.partitions.reader.read([place], wanted_bytes)
        if reading is not None:
            await reading
        if place.error is not None:
            raise place.error
    return _Found((), place.offset, 0)


def _messages(
    buffers: Sequence[Buffer], magic: int, first_offset: int, bytes_max: int
) -> _Found:
    """Messages of as many batches as fill ``bytes_max``, or stand before one of which
    none can be made: who has read them is told so where it stands."""
    parts: list[Buffer] = []
    size, next_offset, batch_bytes = 0, first_offset, 0
    for header, batch in (one for buffer in buffers for one in split(buffer)):
        room = max(bytes_max - size, 1)
        try:
            part = to_message_set(header, batch, magic, first_offset, room)
        except KafkaError:
            if not size:
                raise
            break
        if not size:
            batch_bytes = len(batch)
        if len(part.data):
            parts.append(part.data)
        size += len(part.data)
        next_offset = part.next_offset
        if next_offset <= header.last_offset or (size and size >= bytes_max):
            break
    return _Found(list(_pieces(parts)), next_offset, batch_bytes)


def _pieces(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """Small parts together, large ones as they are."""
    small: list[Buffer] = []
    size = 0
    for part in parts:
        if small and size + len(part) > PIECE_BYTES:
            yield b"".join(small)
            small, size = [], 0
        if len(part) >= PIECE_BYTES:
            yield part
            continue
        small.append(part)
        size += len(part)
    if small:
        yield b"".join(small)
