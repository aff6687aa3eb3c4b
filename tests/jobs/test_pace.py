"""Behind the producers while there is time, at full speed when there is none."""

from typing import Any

import pytest

from jobs.pace import BUSY_BYTES_PER_S, LATE_BYTES, Inflow, pace


@pytest.mark.parametrize(
    ("more", "tasks", "niceness"),
    [
        ({}, 4, 15),
        ({"inflow": BUSY_BYTES_PER_S}, 2, 15),
        ({"inflow": BUSY_BYTES_PER_S, "cores": 1}, 1, 15),
        ({"inflow": BUSY_BYTES_PER_S, "overdue_ms": 2_501}, 4, 0),
        ({"inflow": BUSY_BYTES_PER_S, "pending_bytes": LATE_BYTES + 1}, 4, 0),
        ({"overdue_ms": 2_500}, 4, 15),
    ],
)
def test_who_is_late_takes_the_full_share(
    more: dict[str, Any], tasks: int, niceness: int
) -> None:
    given: Any = {
        "overdue_ms": 0,
        "pending_bytes": 1 << 20,
        "inflow": 0.0,
        "flush_ms": 5_000,
        "cores": 4,
    } | more
    found = pace(**given)
    assert (found.tasks, found.niceness) == (tasks, niceness)


def test_rounds_are_small_while_producers_are_busy() -> None:
    sizes = [
        pace(
            overdue_ms=0, pending_bytes=0, inflow=inflow, flush_ms=1, cores=1
        ).round_bytes
        for inflow in (0, BUSY_BYTES_PER_S)
    ]
    assert sizes == [256 << 20, 64 << 20]


def test_what_comes_in_is_told_from_what_waits_and_what_went() -> None:
    inflow = Inflow()
    assert inflow.look(1_000, 0, 100) == 0
    assert inflow.look(3_000, 0, 1_100) == 2_000
    assert inflow.look(500, 3_000, 1_600) == 1_000
    assert inflow.look(9_999, 0, 1_600) == 1_000  # no time has passed
    assert inflow.look(0, 0, 2_600) == 0  # a topic was deleted
