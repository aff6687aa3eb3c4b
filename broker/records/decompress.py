"""Decompressing fast: one frame, in one step, into memory that is used again.

The problem. Bounding what decompresses step by step, with new memory for each step,
costs five times the decompressing itself (lz4: 0.7 GB/s instead of 4), most of it the
kernel's work on fresh pages. And every compressed batch that is produced is
decompressed once.

The idea. The memory is there before: a library that writes into what it is given can
exceed no limit, and says so when there is no room. Begin with what usually is enough,
and try again with four times as much, up to the limit.

That library takes several frames, one after the other, for one; consumers do not. So
the lengths of the blocks are added up first: what is not one whole frame, and every
other codec, goes the careful way (`compression`).

The price. A few megabytes that stay; what is returned is valid until the next call.

Source: LZ4 Frame Format Description 1.6; RFC 8878 (zstd).
"""

import struct
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import CODEC_LZ4, CODEC_ZSTD, Buffer
from broker.records.compression import declared_size, decompress

_LZ4_MARK: Final = b"\x04\x22\x4d\x18"
_ZSTD_MARK: Final = b"\x28\xb5\x2f\xfd"
_LZ4_SIZE: Final = 0x7FFF_FFFF  # the highest bit says: not compressed
_ZSTD_SIZE_BYTES: Final = (0, 2, 4, 8)
_ZSTD_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_ZSTD_REPEATED: Final = 1
_UINT32: Final = struct.Struct("<I")
_ROOM_BYTES_MIN: Final = 64 << 10
_KEPT_BYTES_MAX: Final = 8 << 20
_NO_ROOM: Final = "failed to write whole buffer"


class Decompressor:
    """Memory to decompress into, for one at a time."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = memoryview(bytearray())

    def decompress(self, codec: int, data: Buffer, limit: int) -> Buffer:
        """As `decompress`; what is returned is valid until the next call."""
        ends_at = _FRAMES.get(codec)
        if ends_at is None or ends_at(data) != len(data):
            return decompress(codec, data, limit)
        if codec == CODEC_ZSTD:
            declared_size(data, limit)
        size = max(len(self._room), 4 * len(data), _ROOM_BYTES_MIN)
        while True:
            size = min(size, limit)
            found = self._try(codec, data, size)
            if found is not None:
                return found
            if size == limit:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"a batch decompresses to more than {limit}",
                )
            size *= 4

    def _try(self, codec: int, data: Buffer, size: int) -> memoryview | None:
        """None if it needs more than ``size`` bytes."""
        import cramjam

        library = cramjam.lz4 if codec == CODEC_LZ4 else cramjam.zstd
        room = self._room if len(self._room) >= size else memoryview(bytearray(size))
        if len(room) <= _KEPT_BYTES_MAX:
            self._room = room
        try:
            return room[: library.decompress_into(data, room[:size])]
        except cramjam.DecompressionError as error:
            if _NO_ROOM in str(error):
                return None
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the compressed records: {error}"
            ) from error


def _lz4_ends_at(data: Buffer) -> int:
    """Where the frame that begins the data ends, by its own word; -1 if it does not."""
    if len(data) < 7 or data[:4] != _LZ4_MARK:
        return -1
    flags = data[4]
    position = 7 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)  # with size, with dictionary
    checksum = 4 * (flags >> 4 & 1)
    while position + 4 <= len(data):
        (size,) = _UINT32.unpack_from(data, position)
        position += 4
        if size == 0:
            return position + 4 * (flags >> 2 & 1)
        position += (size & _LZ4_SIZE) + checksum
    return -1


def _zstd_ends_at(data: Buffer) -> int:
    """As `_lz4_ends_at`."""
    if len(data) < 6 or data[:4] != _ZSTD_MARK:
        return -1
    flags = data[4]
    single, size_bytes = flags >> 5 & 1, _ZSTD_SIZE_BYTES[flags >> 6]
    position = 5 + (1 - single) + _ZSTD_DICTIONARY_BYTES[flags & 3]
    position += max(size_bytes, single)
    while position + 3 <= len(data):
        head = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_repeated = head >> 1 & 3 == _ZSTD_REPEATED
        position += 3 + (1 if is_repeated else head >> 3)
        if head & 1:
            return position + 4 * (flags >> 2 & 1)
    return -1


_FRAMES: Final = {CODEC_LZ4: _lz4_ends_at, CODEC_ZSTD: _zstd_ends_at}
