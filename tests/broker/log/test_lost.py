"""What is missing just between two batches, and whether it may have been released."""

import pytest

from broker.log.index import Gap
from broker.log.lost import may_be_released, place_between

PLACES = [(10, 20, False), (30, 31, True), (60, 90, False)]


@pytest.mark.parametrize(
    ("after", "before", "damaged"),
    [
        (5, 10, None),
        (5, 25, False),
        (15, 25, False),  # it reaches beyond
        (20, 25, None),
        (9, 70, False),
        (21, 30, None),
        (21, 40, True),
        (30, 50, True),
        (40, 95, False),
        (91, 99, None),
    ],
)
def test_the_first_place_between_two_batches_counts(
    after: int, before: int, damaged: bool | None
) -> None:
    assert place_between(PLACES, after, before) is damaged


def test_where_nothing_is_missing_there_is_no_place() -> None:
    assert place_between([], 0, 1 << 62) is None


GAP = Gap(first=5, end=9, after=21, before=25)


@pytest.mark.parametrize(
    ("holes", "kept", "may_be"),
    [
        ([], 6, True),
        (None, 6, True),
        ([(0, 3), (5, 8)], 6, True),
        ([(0, 3), (5, 9)], 6, False),  # what was to be there was refused
        ([], 5, False),  # written after the checkpoint
        (None, 0, False),
    ],
)
def test_a_gap_below_a_checkpoint_may_be_of_released_batches_unless_it_is_its_hole(
    holes: list[tuple[int, int]] | None, kept: int, may_be: bool
) -> None:
    assert may_be_released(GAP, holes, kept, PLACES) is may_be


def test_without_a_checkpoint_a_gap_may_be_of_what_is_missing_in_it() -> None:
    assert may_be_released(GAP._replace(before=31), None, 0, PLACES)
    assert may_be_released(GAP._replace(before=31), [(5, 9)], 0, PLACES)
