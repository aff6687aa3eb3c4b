"""lz4 frames as Kafka's clients of all ages read them.

The problem. Java's reader of lz4 before 1.0 takes only blocks that do not depend on
each other; and all clients of magic 0 compute the frame's header checksum over four
bytes too many, the frame's mark (KAFKA-3160), and refuse a right one. The idea: write
independent blocks, and put the checksum right, or wrong, where it lies.

Source: LZ4 Frame Format Description 1.6; Kafka's ``Lz4BlockOutputStream``.
"""

from typing import Final

import xxhash

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import Buffer

_MARK: Final = b"\x04\x22\x4d\x18"
_FLAGS_AT: Final = 4
_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01
_BLOCK_BYTES_CODE: Final = 4  # 64 KiB, as Kafka writes


def compress_blocks(data: Buffer, level: int = 0) -> bytes:
    """One frame of independent blocks of 64 KiB, without its size. ``level``: 0 is the
    fastest, from 3 on it searches (lz4hc)."""
    import lz4.frame

    return bytes(
        lz4.frame.compress(
            data,
            compression_level=level,
            block_size=_BLOCK_BYTES_CODE,
            block_linked=False,
            store_size=False,
        )
    )


def with_checksum(frame: Buffer, *, of_magic_0: bool = False) -> bytearray:
    """A copy whose header has the right checksum, or the one of magic 0.

    Raises KafkaError CORRUPT_MESSAGE if no header is there.
    """
    copy = bytearray(frame)
    at = _checksum_at(copy)
    if at < 0:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the lz4 frame has no header")
    first = 0 if of_magic_0 else _FLAGS_AT
    copy[at] = xxhash.xxh32_intdigest(bytes(copy[first:at])) >> 8 & 0xFF
    return copy


def _checksum_at(frame: bytearray) -> int:
    """Behind the mark, flags, block size, and what the flags say; -1: not there."""
    if len(frame) < 7 or frame[:4] != _MARK:
        return -1
    flags = frame[_FLAGS_AT]
    at = 6 + 8 * bool(flags & _SIZE_FLAG) + 4 * bool(flags & _DICTIONARY_FLAG)
    return at if at < len(frame) else -1
