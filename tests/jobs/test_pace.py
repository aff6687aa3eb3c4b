"""Behind the producers while there is time, at full speed when there is none."""

from typing import Any

import pytest

from jobs.pace import BUSY_BYTES_PER_S, LATE_BYTES, Inflow, Pace, Pacing, pace


@pytest.mark.parametrize(
    ("more", "tasks", "niceness"),
    [
        ({}, 4, 15),
        ({"inflow": BUSY_BYTES_PER_S}, 2, 15),
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
        "flush_ms": 2_500,
    } | more
    found = pace(**given)
    assert (found.tasks(4), found.niceness) == (tasks, niceness)


def at(inflow: float) -> Pace:
    return pace(overdue_ms=0, pending_bytes=0, inflow=inflow, flush_ms=1)


def test_rounds_are_small_while_producers_are_busy() -> None:
    sizes = [at(inflow).round_bytes(1) >> 20 for inflow in (0, BUSY_BYTES_PER_S)]
    assert sizes == [256, 64]


@pytest.mark.parametrize(
    ("cores", "tasks", "sizes_mib"),
    [
        (1, (1, 1), (256, 64)),
        (2, (2, 1), (256, 64)),
        (4, (4, 2), (256, 128)),
        (7, (7, 3), (448, 192)),
        (64, (64, 32), (4096, 2048)),
    ],
)
def test_a_round_is_as_wide_as_the_cluster_and_as_long_on_each(
    cores: int, tasks: tuple[int, int], sizes_mib: tuple[int, int]
) -> None:
    paces = at(0), at(BUSY_BYTES_PER_S)
    assert tuple(one.tasks(cores) for one in paces) == tasks
    assert tuple(one.round_bytes(cores) >> 20 for one in paces) == sizes_mib


def test_what_comes_in_is_told_from_what_waits_and_what_went() -> None:
    inflow = Inflow()
    assert inflow.look(1_000, 0, 100) == 0
    assert inflow.look(3_000, 0, 1_100) == 2_000
    assert inflow.look(500, 3_000, 1_600) == 1_000
    assert inflow.look(9_999, 0, 1_600) == 1_000  # no time has passed
    assert inflow.look(0, 0, 2_600) == 0  # a topic was deleted


def test_the_session_is_asked_again_until_it_has_the_niceness() -> None:
    answers, asked = [False, True, True], list[int]()

    def set_niceness(niceness: int) -> bool:
        asked.append(niceness)
        return answers[len(asked) - 1]

    pacing = Pacing(2_500, set_niceness)
    assert pacing.is_late  # until it has looked
    for now_ms in (0, 1_000, 2_000):
        pacing.look(0, 0, now_ms)
    assert not pacing.is_late
    assert asked == [15, 15]
    pacing.look(0, 2_501, 3_000)
    assert pacing.is_late
    assert asked == [15, 15, 0]


def test_what_went_to_tables_counts_as_come_in_once() -> None:
    pacing = Pacing(2_500, lambda _: True)
    second = 1_000
    pacing.look(0, 0, 0)
    pacing.note(2 * BUSY_BYTES_PER_S)
    pacing.look(0, 0, second)
    assert pacing.pace.share == 2
    pacing.look(0, 0, 2 * second)
    assert pacing.pace.share == 1
