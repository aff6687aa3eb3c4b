"""Where each partition is set to."""

import pytest

from admin_api.problems import Problem
from admin_api.resets.plan import Offsets, plan
from admin_api.resets.schemas import ResetOffsets

KEY = ("t", 0)


def planned(to, value=None, committed=None, at_time=None):
    known = Offsets(
        {} if committed is None else {KEY: committed},
        {KEY: 10, ("gone", 0): 1},
        {KEY: 20},
        {} if at_time is None else {KEY: at_time},
    )
    [found] = plan(ResetOffsets(to=to, value=value), known)
    assert (found.earliest_offset, found.latest_offset) == (10, 20)
    assert found.current_offset == committed
    return found.new_offset


@pytest.mark.parametrize(
    ("to", "more", "offset"),
    [
        ("EARLIEST", {}, 10),
        ("LATEST", {}, 20),
        ("OFFSET", {"value": 15}, 15),
        ("OFFSET", {"value": 5}, 10),
        ("OFFSET", {"value": 2**62}, 20),
        ("CURRENT", {"committed": 12}, 12),
        ("CURRENT", {"committed": 2}, 10),
        ("CURRENT", {}, 20),
        ("SHIFT", {"value": -3, "committed": 15}, 12),
        ("SHIFT", {"value": 3, "committed": 19}, 20),
        ("TIMESTAMP", {"value": 0, "at_time": 14}, 14),
        ("TIMESTAMP", {"value": 0, "at_time": -1}, 20),
        ("DURATION", {"value": 0}, 20),
    ],
)
def test_a_target_is_an_offset_within_the_log(to, more, offset):
    assert planned(to, **more) == offset


def test_what_was_never_committed_cannot_be_shifted():
    with pytest.raises(Problem, match="t-0 cannot be shifted") as problem:
        planned("SHIFT", value=1)
    assert problem.value.status == 409
