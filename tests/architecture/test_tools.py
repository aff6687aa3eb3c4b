"""The style guide is executable: format, lint, types and import directions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

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
