"""The style guide is executable: format, lint, types and import directions."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, ROOT, python_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BIN = Path(sys.executable).parent

COMMANDS = {
    "format": [BIN / "ruff", "format", "--check", "."],
    "lint": [BIN / "ruff", "check", "."],
    "types": [BIN / "mypy"],
    "imports": [BIN / "lint-imports"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_tools_find_nothing(name):
    done = subprocess.run(
        list(map(str, COMMANDS[name])), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_coverage_that_is_measured_is_that_of_the_tests_that_are_run():
    makefile = (ROOT / "Makefile").read_text()
    run = re.search(r"^PURE := .*tests/broker/,([^)]+)\)", makefile, re.MULTILINE)
    measured = PROJECT["tool"]["coverage"]["run"]["source"]
    assert run
    assert {f"broker.{name}" for name in run[1].split()} == set(measured)


def test_what_is_installed_for_users_is_used():
    """What tests alone need stands in their extra."""
    sources = "".join(path.read_text() for path in python_files(*PACKAGES))
    word = r"^\s*(?:import|from) (\w+)|files\(\"(\w+)\"\)"
    used = {one or other for one, other in re.findall(word, sources, re.MULTILINE)}
    names = packages_distributions()
    found = {_plain(name) for module in used for name in names.get(module, ())}
    wanted = {
        _plain(re.split(r"[<>=]", one)[0]) for one in PROJECT["project"]["dependencies"]
    }
    assert wanted <= found, wanted - found


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
