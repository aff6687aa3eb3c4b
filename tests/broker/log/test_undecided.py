"""What a marker does not decide, where another may be lost before it."""

import pytest

from broker.log.lost import Lost
from broker.log.undecided import Ending, Undecided, undecided_by


@pytest.mark.parametrize(
    ("ending", "lost", "undecided"),
    [
        (Ending(0, 0, 2, 0), [], None),
        (Ending(2, 2, 3, 0), [Lost(0, 2)], None),
        (Ending(0, 0, 2, 0), [Lost(3, 4)], None),
        (Ending(0, 0, 2, 0), [Lost(1, 2)], None),
        (Ending(0, 0, 2, 1), [Lost(1, 2)], None),
        (Ending(0, 0, 2, 2), [Lost(1, 2)], Undecided(0, 2)),
        (Ending(0, 2, 3, 0), [Lost(1, 2)], Undecided(0, 2)),
        (Ending(0, 0, 3, 0), [Lost(1, 3)], Undecided(0, 3)),
        (Ending(0, 0, 6, 0), [Lost(1, 2), Lost(4, 5), Lost(7, 8)], Undecided(0, 5)),
    ],
)
def test_a_marker_decides_what_no_other_may_have_decided_before(
    ending: Ending, lost: list[Lost], undecided: Undecided | None
) -> None:
    assert undecided_by(ending, lost) == undecided
