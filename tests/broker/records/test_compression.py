"""Every codec, every framing that clients send, and the bombs."""

import gzip
import struct
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.compression import compress, decompress

LIMIT = 1 << 20
CODECS = [0, 1, 2, 3, 4]
BOMB_BYTES = 200 << 20
DATA = b"".join(b"%d:lakelog," % i for i in range(9000))


def refusal(codec: int, data: bytes, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, limit)
    return caught.value.code


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(min_size=1, max_size=5000))
def test_what_is_folded_unfolds(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), LIMIT)) == data


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


@pytest.mark.parametrize("name", FRAMINGS)
def test_each_framing_of_clients_is_read(name: str) -> None:
    codec, folded = FRAMINGS[name]
    assert bytes(decompress(codec, memoryview(folded), LIMIT)) == DATA
    assert bytes(decompress(codec, folded, len(DATA))) == DATA
    assert refusal(codec, folded, len(DATA) - 1) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", FRAMINGS)
def test_cut_off_data_are_refused(name: str) -> None:
    codec, folded = FRAMINGS[name]
    boundary = len(gzip.compress(DATA[:99]))
    for length in range(0, len(folded), max(1, len(folded) // 50)):
        if "xerial" in name or length == boundary:
            continue  # whole chunks and whole members are whole
        assert refusal(codec, folded[:length]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", FRAMINGS)
def test_what_follows_the_end_is_refused(name: str) -> None:
    codec, folded = FRAMINGS[name]
    assert refusal(codec, folded + b"\0\0\0\1x") == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_garbage_is_refused_with_a_kafka_error(codec: int, data: bytes) -> None:
    try:
        unfolded = decompress(codec, data, LIMIT)
    except KafkaError:
        return
    assert len(unfolded) <= LIMIT


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


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    for name, (codec, bomb) in bombs().items():
        tracemalloc.start()
        code = refusal(codec, bomb)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE), name
        assert peak < 20 * LIMIT, name


def test_many_empty_members_of_gzip_cost_no_more_than_their_bytes() -> None:
    members = zlib.compress(b"", 9, 31) * 50_000 + zlib.compress(b"end", 9, 31)
    started = time.process_time()
    assert bytes(decompress(1, members, LIMIT)) == b"end"
    assert time.process_time() - started < 1  # 12 GB are copied if each copies the rest


def test_a_declared_size_alone_allocates_nothing() -> None:
    assert refusal(2, b"\xff\xff\xff\xff\x0f\0\0") == ErrorCode.INVALID_RECORD
    declared = zstandard.compress(bytes(100))
    assert decompress(4, declared, 100) == bytes(100)
    assert refusal(4, declared, 99) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    assert refusal(codec, b"x") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError):
        compress(codec, b"x")
