"""Whether something is missing just between two batches."""

import pytest

from broker.log.lost import place_between

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
