"""What compiled codecs call: the paths that are too rare to be written out in line.

A codec reads a length below 128 by itself; longer ones, tagged fields and everything
that is wrong come here.
"""

from collections.abc import Sequence
from typing import NoReturn

from broker.protocol.errors import ProtocolError

# What one message may hold in all its arrays together. A frame is bounded, but an
# element of two bytes becomes a hundred in memory: so their number is bounded as well.
# Far above what clients send: the partitions of a whole large cluster are fewer.
ELEMENTS_MAX = 1 << 19

# A string has no more, as in Kafka: in older versions its length has 15 bits.
STRING_BYTES_MAX = (1 << 15) - 1

# Tagged fields of one structure: each takes two bytes, and some hundred nanoseconds.
TAGS_MAX = 1_000

# What a codec that works in turns does in one of them: some hundred microseconds.
ELEMENTS_A_TURN = 500

SMALL_UVARINTS = tuple(bytes((n,)) for n in range(128))


def read_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """A varint whose first byte was read and goes on: its value, where it ends.

    Raises:
        ProtocolError: more than five bytes, or more than 31 bits.
        IndexError: the buffer ends inside.
    """
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 31:
                raise ProtocolError(f"the varint {value} is out of range")
            return value, position
    raise ProtocolError("a varint of more than five bytes")


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first."""
    if value < 128:
        return SMALL_UVARINTS[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_tag(
    buffer: memoryview, position: int, end: int, last: int
) -> tuple[int, int, int]:
    """The head of a tagged field: its tag, where its value starts and stops.

    Tags rise strictly (KIP-482), so `last` refuses one that comes twice.

    Raises:
        ProtocolError: tags that do not rise, a value that leaves the frame.
    """
    tag, size = buffer[position], 0
    position += 1
    if tag > 127:
        tag, position = read_uvarint(buffer, position, tag)
    size = buffer[position]
    position += 1
    if size > 127:
        size, position = read_uvarint(buffer, position, size)
    if tag <= last:
        raise ProtocolError(f"tag {tag} after tag {last}")
    if position + size > end:
        raise ProtocolError(f"tag {tag} has {size} bytes, {end - position} remain")
    return tag, position, position + size


def check_tags(count: int) -> None:
    """Raise ProtocolError for more tagged fields than any structure has."""
    if count > TAGS_MAX:
        raise ProtocolError(f"a structure has {count} tagged fields")


def skip_tags(buffer: memoryview, position: int, end: int, count: int) -> int:
    """Pass over tagged fields that nobody here knows: newer peers may send them."""
    check_tags(count)
    last = -1
    for _ in range(count):
        last, _, position = read_tag(buffer, position, end, last)
    return position


def tagged(said: Sequence[tuple[int, bytes]]) -> bytes:
    """A section of tagged fields, by rising tag."""
    parts = [uvarint(len(said))]
    for tag, value in said:
        parts += uvarint(tag), uvarint(len(value)), value
    return b"".join(parts)


def refuse_length(field: str, length: int, position: int, end: int) -> NoReturn:
    """A string, bytes or records that is null, negative or longer than the frame."""
    raise ProtocolError(f"{field} has length {length}, {end - position} bytes remain")


def refuse_count(field: str, count: int, position: int, end: int) -> NoReturn:
    """An array that is null, negative, longer than the frame or beyond reason."""
    raise ProtocolError(f"{field} counts {count}, {end - position} bytes remain")


def refuse_end(field: str, position: int, end: int) -> NoReturn:
    """A message or a tagged field that does not end where it was said to."""
    raise ProtocolError(f"{field} ends at {position}, it was said to end at {end}")
