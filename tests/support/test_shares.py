"""Shares of stories: some of each kind, others for another seed, all in the end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shares import Story, chosen, told

KILLS = [Story(f"crash/test_kills.py::test_{n}", "kills", 4) for n in range(9)]
OWNERS = [Story(f"journeys/test_{n}.py", "owners", 3) for n in range(2)]
STORIES = [*KILLS, *OWNERS]
SEEDS = range(100)


def test_one_in_so_many_runs_rounded_up() -> None:
    for seed in SEEDS:
        assert {kind: len(names) for kind, names in chosen(STORIES, seed).items()} == {
            "kills": 3,
            "owners": 1,
        }


def test_a_seed_repeats_its_share_whatever_the_order() -> None:
    for seed in SEEDS:
        assert chosen(STORIES, seed) == chosen(STORIES[::-1], seed)


def test_a_share_is_the_same_on_every_machine_and_python() -> None:
    assert chosen(KILLS, 7) == {"kills": {KILLS[n].name for n in (0, 1, 7)}}


def test_every_story_has_its_turn_about_as_often() -> None:
    turns = dict.fromkeys((story.name for story in STORIES), 0)
    for seed in SEEDS:
        for names in chosen(STORIES, seed).values():
            for name in names:
                turns[name] += 1
    assert all(15 < turns[story.name] < 60 for story in KILLS), turns
    assert all(30 < turns[story.name] < 70 for story in OWNERS), turns


def test_a_kind_does_not_change_what_is_taken_of_another() -> None:
    assert [chosen(KILLS, seed)["kills"] for seed in SEEDS] == [
        chosen(STORIES, seed)["kills"] for seed in SEEDS
    ]


def test_tests_of_a_module_that_stays_together_are_one_story() -> None:
    assert chosen(OWNERS * 5, 1) == chosen(OWNERS, 1)


def test_stories_of_a_kind_agree_on_its_share() -> None:
    with pytest.raises(ValueError, match="of kills, which is shared otherwise"):
        chosen([*KILLS, Story("another", "kills", 2)], 1)


def test_how_many_run_is_told() -> None:
    assert told(STORIES, chosen(STORIES, 1)) == "3 of 9 kills, 1 of 2 owners"


TESTS = Path(__file__).parents[1]
MARKED = re.compile(r'mark\.shared_out\(\s*"([^"]+)",\s*(\d+)(,\s*whole=True)?')


def test_the_readme_names_each_kind_and_how_many_run() -> None:
    text = (TESTS / "README.md").read_text()
    table = text.partition("<!-- kinds: begin -->")[2].partition("<!-- kinds: end")[0]
    named = {
        (kind, row.split("|")[2].strip())
        for row in table.strip().splitlines()[2:]
        for kind in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    modules = (path for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    marked = {
        (kind, f"one {'module ' if whole else ''}in {one_in}")
        for path in modules
        for kind, one_in, whole in MARKED.findall(path.read_text())
    }
    assert marked == named


MODULE = """
import pytest

@pytest.mark.shared_out("few", 3)
@pytest.mark.parametrize("number", range(7))
def test_one(number): pass

@pytest.mark.shared_out("few", 3)
@pytest.mark.slow
def test_slow(): pass

def test_always(): pass
"""
WHOLE = """
import pytest

pytestmark = pytest.mark.shared_out("modules", 2, whole=True)

def test_first(): pass

def test_second(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with this one's rules: nine tests, and two modules that stay whole."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *")
    (tmp_path / "test_few.py").write_text(MODULE)
    for name in ("a", "b"):
        (tmp_path / f"test_whole_{name}.py").write_text(WHOLE)
    return tmp_path


def run(suite: Path, *words: str) -> tuple[set[str], str]:
    """The tests that ran, and all that was printed."""
    base = (sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider")
    done = subprocess.run(
        [*base, "--seed", "5", *words],
        capture_output=True, text=True, check=True, cwd=suite,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "PASSED" in line]
    return {word for line in lines for word in line.split() if "::" in word}, (
        done.stdout
    )


def test_two_runs_are_the_whole_and_no_test_is_in_both(suite: Path) -> None:
    every, said = run(suite)
    assert len(every) == 13
    assert "stories: all" in said
    short, said = run(suite, "--stories", "share")
    assert "a share, by --seed 5; the others: make test-long" in said
    assert "stories of --seed 5: 3 of 7 few, 1 of 2 modules" in said
    assert len(short) == 1 + 3 + 2
    assert "test_few.py::test_always" in short
    assert len({name.split("::")[0] for name in short if "whole" in name}) == 1
    long, _ = run(suite, "--stories", "rest")
    assert "test_few.py::test_slow" in long
    assert not short & long
    assert short | long == every


def test_workers_take_the_same_and_tell_it(suite: Path) -> None:
    alone, _ = run(suite, "--stories", "share")
    at_once, said = run(suite, "--stories", "share", "-n", "2", "--dist", "loadfile")
    assert at_once == alone
    assert "stories of --seed 5: 3 of 7 few, 1 of 2 modules" in said
