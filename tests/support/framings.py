"""One text in every framing of every codec that clients send, and the bombs."""

import gzip
import struct
import zlib

import cramjam
import lz4.frame
import zstandard

from broker.records.compression import compress

LIMIT = 1 << 20


BOMB_BYTES = 200 << 20


DATA = b"".join(b"%d:lakelog," % i for i in range(9000))


FRAMINGS = {
    "gzip": (1, gzip.compress(DATA)),
    "gzip in two members": (1, gzip.compress(DATA[:99]) + gzip.compress(DATA[99:])),
    "snappy raw": (2, bytes(cramjam.snappy.compress_raw(DATA))),
    "snappy xerial": (2, compress(2, DATA)),
    "snappy xerial, other versions": (
        2,
        compress(2, DATA)[:8] + struct.pack(">ii", 99, -7) + compress(2, DATA)[16:],
    ),
    "lz4 with its size": (3, lz4.frame.compress(DATA)),
    "lz4 without": (3, lz4.frame.compress(DATA, store_size=False)),
    "lz4 with checksums": (
        3,
        lz4.frame.compress(DATA, content_checksum=True, block_checksum=True),
    ),
    "zstd with its size": (4, zstandard.compress(DATA)),
    "zstd without": (
        4,
        zstandard.ZstdCompressor(write_content_size=False).compress(DATA),
    ),
}


def bombs() -> dict[str, tuple[int, bytes]]:
    zeros = bytes(BOMB_BYTES)
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    return {
        "gzip": (1, zlib.compress(zeros, 1, 31)),
        "snappy": (2, compress(2, zeros)),
        "snappy raw": (2, bytes(cramjam.snappy.compress_raw(zeros))),
        "lz4": (3, lz4.frame.compress(zeros)),
        "lz4 without size": (3, lz4.frame.compress(zeros, store_size=False)),
        "zstd": (4, zstandard.compress(zeros)),
        "zstd without size": (4, unsized.compress(zeros)),
        "zstd in many frames": (4, zstandard.compress(bytes(1000)) * 10_000),
    }
