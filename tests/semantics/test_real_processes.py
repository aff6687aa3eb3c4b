"""Producers that crash and are fenced, groups, and kills of the broker, by seed.

The short form is one seed. The long form has more of them, longer; and stories in which
the real broker has a defect, which the judge must find.
"""

from pathlib import Path

import pytest

from tests.crash.house import SMALL, House
from tests.semantics.consumers import SESSION_MS
from tests.semantics.story import FIRST, SEEDS, Story, is_telling
from tests.simulation.model import Violation

DEFECTS = ("nobody_is_fenced", "the_first_open_record_is_stable")

pytestmark = pytest.mark.crash


def tell(path: Path, seed: int, seconds: float, kills: int, defect: str = "") -> Story:
    """A whole story; with a defect in its broker."""
    (path / "histories").mkdir()
    settings = (*SMALL, f"groups.min_session_timeout_ms={SESSION_MS}")
    house = House(path / "data", settings=settings)
    if defect:
        house.broker.program = ["tests.semantics.altered", defect]
    story = Story(house, path / "histories", seed, seconds, kills)
    try:
        story.tell()
    finally:
        house.end()
    return story


def test_no_promise_is_broken(tmp_path):
    is_telling(tell(tmp_path, 0, seconds=8, kills=2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_no_promise_is_broken_in_a_longer_time(tmp_path, seed):
    is_telling(tell(tmp_path, seed, seconds=40, kills=8))


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_real_broker_is_found(tmp_path, defect):
    assert any(is_found(tmp_path / str(seed), seed, defect) for seed in range(5))


def is_found(path: Path, seed: int, defect: str) -> bool:
    path.mkdir()
    try:
        tell(path, seed, seconds=15, kills=3, defect=defect)
    except Violation:
        return True
    return False
