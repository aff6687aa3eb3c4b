"""Every codec, every framing that clients send, and the bombs."""

import gzip
import time
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.compression import compress, compress_gzip_fast, decompress
from tests.support.framings import DATA, FRAMINGS, LIMIT, bombs
from tests.support.turns import slowness

CODECS = [0, 1, 2, 3, 4]


def refusal(codec: int, data: bytes, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, limit)
    return caught.value.code


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(min_size=1, max_size=5000))
def test_what_is_folded_unfolds(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), LIMIT)) == data


@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=5000))
def test_gzip_in_a_hurry_is_gzip(data: bytes) -> None:
    assert gzip.decompress(compress_gzip_fast(memoryview(data))) == data
    assert len(compress_gzip_fast(data)) < len(data) + 50


def test_gzip_in_a_hurry_is_not_much_larger() -> None:
    data = b"".join(b"%d: %d of it\n" % (i, i * i) for i in range(20_000))
    fast, tight = (len(made(data)) for made in (compress_gzip_fast, gzip.compress))
    assert fast < tight * 1.5


@pytest.mark.parametrize("name", FRAMINGS)
def test_each_framing_of_clients_is_read(name: str) -> None:
    codec, compressed = FRAMINGS[name]
    assert bytes(decompress(codec, memoryview(compressed), LIMIT)) == DATA
    assert bytes(decompress(codec, compressed, len(DATA))) == DATA
    assert refusal(codec, compressed, len(DATA) - 1) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", FRAMINGS)
def test_cut_off_data_are_refused(name: str) -> None:
    codec, compressed = FRAMINGS[name]
    boundary = len(gzip.compress(DATA[:99]))
    for length in range(0, len(compressed), max(1, len(compressed) // 50)):
        if "xerial" in name or length == boundary:
            continue  # whole chunks and whole members are whole
        assert refusal(codec, compressed[:length]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", FRAMINGS)
def test_what_follows_the_end_is_refused(name: str) -> None:
    codec, compressed = FRAMINGS[name]
    assert refusal(codec, compressed + b"\0\0\0\1x") == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_garbage_is_refused_with_a_kafka_error(codec: int, data: bytes) -> None:
    try:
        decompressed = decompress(codec, data, LIMIT)
    except KafkaError:
        return
    assert len(decompressed) <= LIMIT


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
    taken_s = []
    for _ in range(3):
        started = time.thread_time()
        assert bytes(decompress(1, members, LIMIT)) == b"end"
        taken_s.append(time.thread_time() - started)
    assert min(taken_s) < slowness()  # 12 GB are copied if each copies the rest


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
