"""An entry verifies whole, in its own place and generation, and in no other."""

import pytest

from broker.storage.entry import Entry, pack_entry, read_entry
from tests.broker.storage.driver import an_append, batch

PLACE = 4096
GENERATION = 7


def a_segment(size: int = 150, records: int = 3) -> bytearray:
    one = an_append(batch(42, size, records=records), partition=5, topic=9)
    head = pack_entry(one, GENERATION, 4096, PLACE)
    return bytearray(PLACE) + head + bytes(one.batch)


def read(
    data: bytes | bytearray, position: int = PLACE, generation: int = GENERATION
) -> Entry | str:
    return read_entry(memoryview(data), position, generation, len(data))


def test_what_is_written_is_read() -> None:
    assert read(a_segment()) == Entry(
        topic_number=9,
        partition=5,
        base_offset=42,
        last_delta=2,
        max_timestamp=1042,
        position=PLACE + 48,
        length=150,
        synced_below=4096,
    )


def test_any_flipped_bit_is_noticed() -> None:
    data = a_segment(size=80)
    for bit in range(PLACE * 8, len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        assert isinstance(read(data), str), f"bit {bit - PLACE * 8}"
        data[bit // 8] ^= 1 << bit % 8


def test_any_cut_is_noticed() -> None:
    data = a_segment(size=80)
    for end in range(PLACE, len(data)):
        assert isinstance(read(data[:end]), str)


def test_another_generation_is_nothing() -> None:
    assert read(a_segment(), generation=GENERATION - 1) == ""
    assert read(bytearray(8192)) == ""


def test_a_copy_in_another_place_is_no_entry() -> None:
    data = a_segment()
    moved = data + data[PLACE:]
    assert isinstance(read(moved, len(data)), str)


def test_an_old_batch_behind_a_new_header_is_noticed() -> None:
    """As when only the first sector of a write survives, over a batch of equal size."""
    new, old = a_segment(), bytearray(PLACE + 48) + batch(42, 150, records=3, seed=1)
    torn = new[: PLACE + 48] + old[PLACE + 48 :]
    assert "is not the entry's" in str(read(torn))


def test_a_batch_that_was_not_placed_is_our_mistake() -> None:
    one = an_append(batch(42))
    one.base_offset = 43
    with pytest.raises(AssertionError):
        pack_entry(one, GENERATION, 4096, PLACE)
