"""What holds for every test, held against tests that break it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import TAKE_LONG, TESTS, pytest_collection_modifyitems

ROOT = Path(__file__).parents[1]
NUMBERS = re.compile(r"seen -?\d+")
LEAKY = {
    "test_a.py": """
        import pytest, socket

        @pytest.fixture
        def held():
            return socket.socket()

        def test_before(): ...
        def test_leaves_what_its_fixture_opened(held): ...
    """,
    "test_b.py": """
        import socket

        def test_leaves_what_only_the_collector_finds():
            circle = [socket.socket()]
            circle.append(circle)
    """,
    "test_c.py": """
        def test_innocent(): ...
    """,
}


def outcome(folder: Path, *flags: str) -> str:
    """What pytest says of the tests in a folder, with this suite's settings."""
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    place = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *place, *flags, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    for name, source in LEAKY.items():
        lines = [line[8:] for line in source.splitlines()]
        (tmp_path / name).write_text("\n".join(lines))
    return tmp_path


def test_what_is_left_open_is_an_error_of_the_module_that_left_it(leaky: Path) -> None:
    said = outcome(leaky, "--seed", "0")
    summary = [line for line in said.splitlines() if line.startswith("ERROR ")]
    assert [line.partition("::")[2].split()[0] for line in summary] == [
        "test_leaves_what_its_fixture_opened",
        "test_leaves_what_only_the_collector_finds",
    ]
    assert "4 passed, 2 errors" in said


def test_a_seed_is_told_and_repeats_the_order_and_what_hypothesis_tries(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import given, settings, strategies\n"
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(30))\n"
        "def test_order(n): print('seen', n)\n"
        "@settings(max_examples=10)\n"
        "@given(strategies.integers())\n"
        "def test_tries(n): print('seen', n)\n"
    )

    def seen(*flags: str) -> tuple[str, list[str]]:
        lines = outcome(tmp_path, "-s", *flags).splitlines()
        [header] = [line for line in lines if line.startswith("order of tests: ")]
        return header, [word for line in lines for word in NUMBERS.findall(line)]

    header, fresh = seen()
    assert len(fresh) == 40
    assert seen("--seed", header.split()[-1]) == (header, fresh)
    assert seen("--seed", "0")[1][:30] == [f"seen {n}" for n in range(30)]


def test_a_worker_begins_with_stories_and_with_the_twins_that_take_long() -> None:
    assert all((TESTS / f"{name}.py").exists() for name in TAKE_LONG)
    long = [f"tests/{name}.py::test_it" for name in TAKE_LONG]
    twins = [f"tests/broker/test_{n}.py::test_it" for n in range(50)]
    story = "tests/journeys/test_up.py::test_it"
    items = [Collected(name) for name in (*twins, *long, story)]
    config = SimpleNamespace(
        option=SimpleNamespace(seed=1, markexpr=""), workerinput={}
    )
    pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    names = [item.nodeid for item in items]
    assert names[0] == story
    assert set(names[1 : 1 + len(long)]) == set(long)
    assert set(names[1 + len(long) :]) == set(twins)


class Collected:
    """As much of a test as its place follows from."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid, self.path = nodeid, ROOT / nodeid.partition("::")[0]
        self.config = SimpleNamespace(option=SimpleNamespace(markexpr=""))

    def add_marker(self, _: object) -> None:
        """Nothing follows from those that are added."""

    def get_closest_marker(self, _: str) -> None:
        return None
