"""Unfolding fast: one frame, in one step, into memory that is used again.

The problem. Bounding what unfolds step by step, with new memory for each step, costs
five times the unfolding itself (lz4: 0.7 GB/s instead of 4), most of it the kernel's
work on fresh pages. And every compressed batch that is produced is unfolded once.

The idea. The memory is there before: a library that writes into what it is given can
exceed no limit, and says so when there is no room. Begin with what usually is enough,
and try again with four times as much, up to the limit.

That library takes several frames, one after the other, for one; consumers do not. So a
batch that holds the mark of a frame anywhere but at its start, which by chance one in
some dozens does, goes the careful way (`compression`), and so does every other codec.

The price. A few megabytes that stay; what is returned is valid until the next call.
"""

from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import CODEC_LZ4, CODEC_ZSTD, Buffer
from broker.records.compression import check_declared_size, decompress

_LZ4_MARK: Final = b"\x04\x22\x4d\x18"
_ZSTD_MARK: Final = b"\x28\xb5\x2f\xfd"
_SKIPPED_MARK: Final = b"\x2a\x4d\x18"  # ends the mark of a frame that readers skip
_MARKS: Final = {CODEC_LZ4: _LZ4_MARK, CODEC_ZSTD: _ZSTD_MARK}
_ROOM_BYTES_MIN: Final = 64 << 10
_KEPT_BYTES_MAX: Final = 8 << 20
_NO_ROOM: Final = "failed to write whole buffer"


class Unfolder:
    """Memory to unfold into, for one at a time."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = memoryview(bytearray())

    def unfold(self, codec: int, data: Buffer, limit: int) -> Buffer:
        """As `decompress`; what is returned is valid until the next call."""
        mark = _MARKS.get(codec)
        if mark is None or not _is_one_frame(bytes(data), mark):
            return decompress(codec, data, limit)
        if codec == CODEC_ZSTD:
            check_declared_size(data, limit)
        size = max(len(self._room), 4 * len(data), _ROOM_BYTES_MIN)
        while True:
            size = min(size, limit)
            found = self._try(codec, data, size)
            if found is not None:
                return found
            if size == limit:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, f"a batch unfolds to more than {limit}"
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


def _is_one_frame(data: bytes, mark: bytes) -> bool:
    """Whether no other frame can begin behind the first."""
    return (
        data.startswith(mark)
        and data.find(mark, len(mark)) < 0
        and data.find(_SKIPPED_MARK) < 0
    )
