"""The style guide is executable: format, lint, types and import directions."""

import re
import shutil
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


def test_the_import_contracts_name_packages_that_there_are():
    named = {
        name.strip(" ()")
        for contract in PROJECT["tool"]["importlinter"]["contracts"]
        for key in ("layers", "source_modules", "forbidden_modules")
        for line in contract.get(key, ())
        for name in line.split("|")
    }
    ours = [one for one in named if one.partition(".")[0] in PACKAGES]
    assert len(ours) > 20
    paths = [ROOT / one.replace(".", "/") for one in ours]
    missing = [
        one for one in paths if not (one.is_dir() or one.with_suffix(".py").exists())
    ]
    assert missing == []


def test_clean_removes_whatever_git_ignores(tmp_path):
    """What git ignores is what was made here; that it is made anew is no matter."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert len(set(ignored)) == len(ignored)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ignored:
        (tmp_path / name.replace("*", "x")).mkdir()
    for package in (*PACKAGES, "tests"):
        (tmp_path / package / "deeper" / "__pycache__").mkdir(parents=True)
    (tmp_path / "broker" / "kept.py").touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True)
    left = [one for one in tmp_path.rglob("*") if one.is_file() or "__" in one.name]
    assert {one.name for one in left} == {"Makefile", "kept.py"}
    kept = {*PACKAGES, "tests", "Makefile"}
    assert {one.name for one in tmp_path.iterdir()} == kept


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
