"""About what committed offsets take."""

from broker.groups.offset_bytes import (
    GROUP_OFFSETS_BYTES,
    OFFSET_BYTES,
    added_bytes,
    bytes_of,
    group_bytes_of,
)
from broker.groups.offsets import Committed

TWO = {(1, 0): Committed(1, metadata="abc"), (1, 1): Committed(2)}


def test_each_offset_weighs_and_its_metadata() -> None:
    assert bytes_of(TWO) == 2 * OFFSET_BYTES + 3
    assert group_bytes_of("group", TWO) == GROUP_OFFSETS_BYTES + 5 + bytes_of(TWO)


def test_what_takes_the_place_of_another_weighs_the_difference() -> None:
    longer = {(1, 0): Committed(3, metadata="abcde"), (1, 2): Committed(4)}
    assert added_bytes("group", TWO, longer) == 2 + OFFSET_BYTES
    assert added_bytes("group", None, longer) == group_bytes_of("group", longer)
