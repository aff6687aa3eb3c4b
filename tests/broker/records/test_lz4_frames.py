"""Frames of lz4 that clients of every age take."""

import lz4.frame
import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.compression import decompress
from broker.records.lz4_frames import compress_blocks, with_checksum


@pytest.mark.parametrize("size", [0, 1, 70_000, 200_000])
def test_blocks_are_independent_and_come_back(size) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    frame = compress_blocks(memoryview(data))
    told = lz4.frame.get_frame_info(frame)
    assert (told["block_linked"], told["block_size"]) == (False, 64 << 10)
    assert bytes(decompress(3, frame, 1 << 30)) == data


@pytest.mark.parametrize("sized", [False, True])
def test_the_checksum_of_magic_0_is_wrong_for_all_others_and_can_be_put_right(sized):
    frame = lz4.frame.compress(b"abc" * 101, store_size=sized)
    old = with_checksum(frame, of_magic_0=True)
    with pytest.raises(RuntimeError, match="headerChecksum"):
        lz4.frame.decompress(bytes(old))
    assert with_checksum(old) == frame


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x04\x22\x4d\x18", b"\0" * 30, b"\x04\x22\x4d\x18\x09" + b"\0" * 12],
)
def test_what_is_no_frame_is_damaged(frame) -> None:
    with pytest.raises(KafkaError) as told:
        with_checksum(frame)
    assert told.value.code is ErrorCode.CORRUPT_MESSAGE
