"""Who stops at a hole is whoever may have lost something in it, and nobody else."""

import numpy as np
import pytest

from jobs.batches import Batches, Places
from jobs.holes import Hole, below, first_hole


def chunk(sequence: int, *batches: tuple[int, int, int]) -> Batches:
    """(base, last, position) each."""
    base, last, position = (np.array(c, np.int64) for c in zip(*batches, strict=True))
    return Batches.all_of(
        sequence, "", Places.of(base, last, position, np.full(len(base), 100))
    )


HOLE = Hole(7, 500, 600)


@pytest.mark.parametrize(
    ("hole", "what"),
    [
        (HOLE, "bytes 500 to 600 are damaged and"),
        (Hole(7, 0, 0), "it is lost and"),
    ],
)
def test_a_hole_says_until_when_what_is_put_back_helps(hole: Hole, what: str) -> None:
    assert str(hole) == (
        f"segment 7: {what} may have held its next records; once a start of the broker "
        "has found that, it takes nothing back there"
    )


def test_offsets_that_go_on_over_the_hole_lost_nothing() -> None:
    assert first_hole([chunk(7, (0, 9, 400), (10, 19, 700))], 0, [HOLE]) is None


def test_a_gap_at_the_hole_stops_before_it() -> None:
    chunks = [chunk(7, (0, 9, 300), (10, 19, 400), (30, 39, 700))]
    assert first_hole(chunks, 0, [HOLE]) == (20, HOLE, 30)
    assert first_hole(chunks, 15, [HOLE]) == (20, HOLE, 30)
    [cut] = below(chunks, 20)
    assert cut.last.tolist() == [9, 19]


def test_the_hole_may_lie_at_either_end_of_a_segment() -> None:
    before, after = chunk(6, (0, 9, 400)), chunk(8, (20, 29, 100))
    assert first_hole([before, after], 0, [HOLE]) == (10, HOLE, 20)
    assert first_hole([chunk(7, (0, 9, 100)), after], 0, [HOLE]) == (10, HOLE, 20)
    assert first_hole([before, chunk(7, (20, 29, 700))], 0, [HOLE]) == (10, HOLE, 20)


def test_a_gap_elsewhere_is_lawful() -> None:
    assert first_hole([chunk(7, (0, 9, 100), (20, 29, 200))], 0, [HOLE]) is None
    assert first_hole([chunk(7, (0, 9, 700), (20, 29, 800))], 0, [HOLE]) is None


def test_the_first_batch_behind_a_hole_is_held_unless_the_table_has_it() -> None:
    chunks = [chunk(7, (20, 29, 700))]
    assert first_hole(chunks, 0, [HOLE]) == (0, HOLE, 20)
    assert first_hole(chunks, 10, [HOLE]) == (10, HOLE, 20)
    assert first_hole(chunks, 20, [HOLE]) is None
