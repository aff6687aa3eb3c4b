"""The records of a segment's first block: whole, or not there."""

from broker.storage.layout import (
    SEAL_AT,
    Identity,
    Seal,
    pack_identity,
    pack_seal,
    read_identity,
    read_seal,
)

IDENTITY = Identity(sequence=12, file_bytes=1 << 26, created_ms=1_700_000_000_000)
SEAL = Seal(12, 60_000, 60_000, 720, 0xDEADBEEF, 1_700_000_000_500)


def a_block() -> bytearray:
    return bytearray((pack_identity(IDENTITY) + pack_seal(SEAL)).ljust(4096, b"\0"))


def test_both_are_read_back() -> None:
    assert read_identity(a_block()) == IDENTITY
    assert read_seal(a_block(), 12) == SEAL


def test_the_seal_of_an_earlier_generation_counts_for_nothing() -> None:
    assert read_seal(a_block(), 13) is None


def test_zeros_and_short_blocks_are_neither() -> None:
    for block in (bytes(4096), b"", bytes(20)):
        assert read_identity(block) is None
        assert read_seal(block, 12) is None


def test_any_flipped_bit_is_noticed() -> None:
    block = a_block()
    written = [at for at, byte in enumerate(block) if byte]
    for at in written:
        block[at] ^= 1
        if at < SEAL_AT:
            assert read_identity(block) is None
        else:
            assert read_seal(block, 12) is None
        block[at] ^= 1
