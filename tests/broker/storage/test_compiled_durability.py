"""The calls on which the promises of the compiled writer rest, in order.

``test_durability.py`` says it of its twin in Python. This is what a broker runs, and
what nobody sees who looks at Python only.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.patience import IDLE_S

FILE, POSITION, LOOP = "segment-0000.log", "horizon", "loop"


def calls_of_appends(directory: Path, *words: str) -> list[list[str]]:
    """Of a small batch, a larger one, a marker, and a batch behind it."""
    command = [sys.executable, "-m", "tests.support.compiled_calls", str(directory)]
    done = subprocess.run(
        [*command, *words], check=True, capture_output=True, timeout=IDLE_S
    )
    found = json.loads(done.stdout)
    assert len(found) == 4
    return found


SYNCED = [f"write {FILE}", f"sync {FILE}", f"write {POSITION}", f"write {LOOP}"]
WRITTEN = [f"write {FILE}", f"write {POSITION}", f"write {LOOP}"]


def test_an_append_is_synced_before_others_see_it_and_before_the_loop_is_told(
    tmp_path: Path,
) -> None:
    assert calls_of_appends(tmp_path) == [SYNCED] * 4


def test_in_the_relaxed_mode_a_marker_is_synced_before_anybody_hears_of_it(
    tmp_path: Path,
) -> None:
    small, large, marker, after = calls_of_appends(tmp_path, "relaxed")
    assert marker == SYNCED
    assert small == large == after == WRITTEN
