"""Stories of participants that speak version 2 of transactions (KIP-890)."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.semantics.history import now
from tests.semantics.java_story import Java, JavaStory
from tests.semantics.relay import END_TXN, PRODUCE, SECOND, TXN_OFFSET_COMMIT
from tests.semantics.story import FIRST, SEEDS, is_telling
from tests.simulation.model import Violation

pytestmark = [pytest.mark.crash, pytest.mark.foreign]

LATE = 0.03
"""Requests that come when their client has given them up, as a share."""


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    return Java.compiled(tmp_path_factory.mktemp("java"))


def speaks_version_2(story: JavaStory) -> None:
    """It is seen on the wire, of each request that differs."""
    passed = story.relay.passed
    for key in (PRODUCE, END_TXN, TXN_OFFSET_COMMIT):
        assert any(k == key and v >= SECOND[key] for k, v in passed), passed


def test_the_clocks_of_both_languages_are_one(java: Java) -> None:
    before = now()
    words = java.command(kind="clock")
    said = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
    assert before < int(said) < now()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_no_promise_of_version_2_is_broken(
    java: Java, tmp_path: Path, seed: int
) -> None:
    story = JavaStory(java, tmp_path, seed, seconds=30, kills=6)
    story.tell()
    is_telling(story)
    speaks_version_2(story)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_what_comes_late_ends_and_writes_nothing(
    java: Java, tmp_path: Path, seed: int
) -> None:
    """Requests that were asked again arrive a second time, seconds later."""
    story = JavaStory(java, tmp_path, seed, seconds=30, kills=2, late=LATE)
    story.tell()
    is_telling(story)
    speaks_version_2(story)
    assert story.relay.kept


@pytest.mark.parametrize(
    ("defect", "late"),
    [("ends_that_bump_no_epoch", 0.0), ("ends_of_any_epoch", 2 * LATE)],
)
def test_a_defect_of_version_2_is_found(
    java: Java, tmp_path: Path, defect: str, late: float
) -> None:
    def is_found(seed: int) -> bool:
        path = tmp_path / str(seed)
        path.mkdir()
        story = JavaStory(
            java, path, seed, seconds=20, kills=2, late=late, defect=defect
        )
        return _breaks(story.tell)

    assert any(is_found(seed) for seed in range(5))


def _breaks(tell: Callable[[], None]) -> bool:
    try:
        tell()
    except Violation:
        return True
    return False
