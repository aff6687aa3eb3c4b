"""The codecs of a record batch, with the output bounded before it is made.

A few kilobytes can declare or decompress to gigabytes. Each library has its own trap:
one trusts the size that the data declare, one ignores the limit it is given when a size
is declared, one has no limit at all. So every codec here goes the way that was found to
stop: the declared size is checked first, and the rest is decompressed in steps.

What clients really send: gzip in one or more members; snappy raw, or in the chunks of
xerial's Java stream (any version bytes); an lz4 frame, with or without its size; zstd
with or without its size.

Source: Kafka's ``CompressionType``; KIP-110 (zstd); xerial ``SnappyOutputStream``.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    Buffer,
)

_STEP_BYTES: Final = 1 << 20
_GZIP_WINDOW: Final = 31  # zlib's way to say: with gzip's header
_GZIP_STEP_BYTES: Final = 8 << 10
_ZSTD_WINDOW_BYTES_MAX: Final = 1 << 27  # what Kafka's own zstd accepts
_ZSTD_BLOCK_BYTES: Final = 128 << 10
_ZSTD_STEP_BYTES: Final = 256
_ZSTD_LEVEL: Final = 3
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_INT32: Final = struct.Struct(">i")


def decompress(codec: int, data: Buffer, limit: int) -> Buffer:
    """``data`` decompressed, at most ``limit`` bytes.

    Raises KafkaError: CORRUPT_MESSAGE if the data are damaged or cut off,
    INVALID_RECORD if they would exceed the limit, UNSUPPORTED_COMPRESSION_TYPE.
    """
    if codec == CODEC_NONE:
        _bounded_size(len(data), limit)
        return data
    decompress = _DECOMPRESS.get(codec)
    if decompress is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {codec}"
        )
    try:
        return decompress(data, limit)
    except KafkaError:
        raise
    except Exception as error:
        # Each library raises its own types; all of them say the same.
        raise _damaged(str(error)) from error


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed as a producer would, at the codec's own level unless one is
    named (of gzip, lz4 and zstd)."""
    if codec == CODEC_NONE:
        return bytes(data)
    if codec == CODEC_GZIP:
        tight = zlib.Z_DEFAULT_COMPRESSION if level is None else level
        folder = zlib.compressobj(tight, wbits=_GZIP_WINDOW)
        return folder.compress(data) + folder.flush()
    if codec == CODEC_SNAPPY:
        return _compress_snappy(data)
    if codec == CODEC_LZ4:
        from broker.records.lz4_frames import compress_blocks

        return compress_blocks(data, level or 0)
    if codec == CODEC_ZSTD:
        import zstandard

        tight = _ZSTD_LEVEL if level is None else level
        return zstandard.ZstdCompressor(tight).compress(data)
    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {codec}")


def compress_gzip_fast(data: Buffer) -> bytes:
    """One member of gzip, at level 1: ten times as fast as a producer's level 6, and a
    tenth larger. For conversions, which are paid for by the broker."""
    from isal import igzip

    return bytes(igzip.compress(data, 1, mtime=0))


def declared_size(data: Buffer, limit: int) -> int:
    """What a zstd frame says of its size; -1 if nothing. INVALID_RECORD above it."""
    import zstandard

    try:
        declared = int(zstandard.frame_content_size(data))
    except zstandard.ZstdError as error:
        raise _damaged(str(error)) from error
    _bounded_size(declared, limit)
    return declared


def _damaged(why: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"compressed data are damaged: {why}")


def _gzip(data: Buffer, limit: int) -> Buffer:
    from isal import isal_zlib

    parts: list[bytes] = []
    size = position = 0
    view = memoryview(data)
    while position < len(view) or not position:
        member = isal_zlib.decompressobj(_GZIP_WINDOW)
        # In small steps: what is behind the end of a member is copied each time, and
        # fifty thousand empty members fit into a megabyte.
        while not member.eof:
            step = view[position : position + _GZIP_STEP_BYTES]
            if not step:
                raise _damaged("gzip ends early")
            part = member.decompress(step, limit - size + 1)
            position += len(step) - len(member.unused_data)
            size += len(part)
            _bounded_size(size, limit)
            if part:
                parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _bounded_size(size: int, limit: int) -> None:
    if size > limit:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the batch decompresses to more than {limit} bytes",
        )


def _snappy(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, limit)
    parts: list[Buffer] = []
    size = 0
    position = _XERIAL_HEADER.size
    if len(view) < position:
        raise _damaged("snappy ends in its header")
    while position < len(view):
        (length,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 < length <= len(view) - position:
            raise _damaged("a snappy chunk does not fit")
        part = _snappy_block(view[position : position + length], limit - size)
        position += length
        size += len(part)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, limit: int) -> Buffer:
    import cramjam

    _bounded_size(cramjam.snappy.decompress_raw_len(block), limit)
    return memoryview(cramjam.snappy.decompress_raw(block))


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(
            cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        )
        parts += [_INT32.pack(len(block)), block]
    return b"".join(parts)


def _lz4(data: Buffer, limit: int) -> Buffer:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    # In steps, because the library otherwise sets aside all that the limit allows.
    parts: list[bytes] = [frame.decompress(data, max_length=_STEP_BYTES)]
    size = len(parts[0])
    while not frame.eof and not frame.needs_input:
        parts.append(frame.decompress(b"", max_length=_STEP_BYTES))
        size += len(parts[-1])
        _bounded_size(size, limit)
    _bounded_size(size, limit)
    if not frame.eof:
        raise _damaged("lz4 ends early")
    if frame.unused_data:
        raise _damaged("bytes follow the lz4 frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd(data: Buffer, limit: int) -> Buffer:
    import zstandard

    declared = declared_size(data, limit)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    if declared > 0:
        return decompressor.decompress(data, allow_extra_data=False)
    return _zstd_stream(decompressor, data, limit)


def _zstd_stream(decompressor: Any, data: Buffer, limit: int) -> Buffer:
    parts: list[bytes] = []
    size = 0
    stream = decompressor.decompressobj(write_size=_ZSTD_BLOCK_BYTES)
    view = memoryview(data)
    position = 0
    # In small steps: four bytes may decompress to a block, so a step overshoots the
    # limit by 8 MiB at worst.
    while not stream.eof and position < len(view):
        part = stream.decompress(view[position : position + _ZSTD_STEP_BYTES])
        position += _ZSTD_STEP_BYTES
        size += len(part)
        _bounded_size(size, limit)
        parts.append(part)
    if not stream.eof:
        raise _damaged("zstd ends early")
    if stream.unused_data or position < len(view):
        raise _damaged("bytes follow the zstd frame")
    return b"".join(parts)


_DECOMPRESS: Final[dict[int, Callable[[Buffer, int], Buffer]]] = {
    CODEC_GZIP: _gzip,
    CODEC_SNAPPY: _snappy,
    CODEC_LZ4: _lz4,
    CODEC_ZSTD: _zstd,
}
