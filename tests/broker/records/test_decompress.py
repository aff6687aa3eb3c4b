"""The fast way says what the careful way says, in memory that is used again."""

import random

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import CODEC_LZ4, CODEC_ZSTD
from broker.records.compression import compress, decompress
from broker.records.decompress import _FRAMES, Decompressor
from tests.support.framings import DATA, FRAMINGS, LIMIT, bombs

FAST = [CODEC_LZ4, CODEC_ZSTD]


def outcome(
    decompress, codec: int, data: bytes, limit: int = LIMIT
) -> bytes | ErrorCode:
    try:
        return bytes(decompress(codec, data, limit))
    except KafkaError as error:
        return error.code


@pytest.mark.parametrize("name", FRAMINGS)
def test_each_framing_is_read_and_each_cut_refused(name: str) -> None:
    codec, compressed = FRAMINGS[name]
    decompress = Decompressor().decompress
    for _ in range(2):  # with new memory, and with memory that was used
        assert outcome(decompress, codec, compressed) == DATA
    assert outcome(decompress, codec, compressed, len(DATA)) == DATA
    assert (
        outcome(decompress, codec, compressed, len(DATA) - 1)
        == ErrorCode.INVALID_RECORD
    )
    for length in range(0, len(compressed), max(1, len(compressed) // 50)):
        careful = outcome(decompress, codec, compressed[:length])
        assert outcome(decompress, codec, compressed[:length]) == careful, length


@pytest.mark.parametrize("name", FRAMINGS)
@pytest.mark.parametrize("more", [b"x", b"\0\0\0\1x", bytes(4)])
def test_what_follows_the_end_is_refused(name: str, more: bytes) -> None:
    codec, compressed = FRAMINGS[name]
    careful = outcome(decompress, codec, compressed + more)
    assert outcome(Decompressor().decompress, codec, compressed + more) == careful
    assert careful != DATA


@pytest.mark.parametrize("codec", FAST)
def test_a_second_frame_is_refused_wherever_it_stands(codec: int) -> None:
    one = compress(codec, DATA)
    for data in (one + one, one + b"\x50\x2a\x4d\x18\1\0\0\0x", b"x" + one):
        assert (
            outcome(Decompressor().decompress, codec, data) == ErrorCode.CORRUPT_MESSAGE
        )


@pytest.mark.parametrize("codec", FAST)
def test_records_that_hold_the_marks_of_frames_are_read(codec: int) -> None:
    marks = b"\x04\x22\x4d\x18 \x28\xb5\x2f\xfd \x50\x2a\x4d\x18"
    assert outcome(Decompressor().decompress, codec, compress(codec, marks)) == marks


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300), codec=st.sampled_from(FAST), flip=st.integers(0))
def test_damage_is_seen_where_the_careful_way_sees_it(
    data: bytes, codec: int, flip: int
) -> None:
    compressed = bytearray(compress(codec, data))
    compressed[flip % len(compressed)] ^= 1 << (flip % 8)
    fast = outcome(Decompressor().decompress, codec, bytes(compressed))
    assert fast == outcome(decompress, codec, bytes(compressed))


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(0, 300_000),
    noise=st.booleans(),
    checksum=st.booleans(),
    sized=st.booleans(),
)
def test_every_form_of_one_whole_frame_goes_the_fast_way(
    size: int, noise: bool, checksum: bool, sized: bool
) -> None:
    data = random.Random(size).randbytes(size) if noise else bytes(size)
    small = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized)
    compressed = {
        CODEC_LZ4: lz4.frame.compress(
            data, content_checksum=checksum, block_checksum=checksum,
            store_size=sized, block_linked=sized,
        ),
        CODEC_ZSTD: small.compress(data),
    }  # fmt: skip
    for codec, frame in compressed.items():
        assert _FRAMES[codec](frame) == len(frame)
        assert outcome(Decompressor().decompress, codec, frame) == data


def test_a_bomb_is_refused_and_its_memory_not_kept() -> None:
    decompressor = Decompressor()
    for name, (codec, bomb) in bombs().items():
        assert outcome(decompressor.decompress, codec, bomb) in (
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
        ), name
    assert len(decompressor._room) <= 4 * LIMIT


@pytest.mark.parametrize("fold", [lz4.frame.compress, zstandard.compress])
def test_what_grows_a_thousandfold_is_read_within_the_limit(fold) -> None:
    codec = CODEC_LZ4 if fold is lz4.frame.compress else CODEC_ZSTD
    assert outcome(Decompressor().decompress, codec, fold(bytes(LIMIT))) == bytes(LIMIT)
