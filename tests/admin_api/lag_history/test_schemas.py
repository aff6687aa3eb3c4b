"""A history by topic, or by partition of one topic."""

import pytest

from admin_api.lag_history.ring import LagRing, LeftOut
from admin_api.lag_history.schemas import ROWS_MAX, history
from admin_api.problems import Problem

NONE = LeftOut()


def test_the_partitions_that_are_behind_the_most_come_first_and_not_all_of_them():
    ring = LagRing(2, 1_000)
    ring.add(1, {("g", "t", n): n for n in range(ROWS_MAX + 5)})
    found = history(ring, NONE, "g", "t", 0, 60_000)
    assert len(found.data) == ROWS_MAX
    assert found.data[0].partition_id == ROWS_MAX + 4
    assert found.total[0].lag == sum(range(ROWS_MAX + 5))
    with pytest.raises(Problem, match="group g for topic other was kept"):
        history(ring, NONE, "g", "other", 0, 60_000)
    with pytest.raises(Problem, match="group h was kept"):
        history(ring, NONE, "h", None, 0, 60_000)
