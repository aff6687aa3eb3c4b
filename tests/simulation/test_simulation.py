"""The whole broker under faults, a number of seeds; and what makes a seed worth having.

``make sim`` runs more of them, for as long as one likes.
"""

import functools
import os
import subprocess
import sys

import pytest

from tests.simulation.story import play

SEEDS = int(os.environ.get("LAKELOG_SIM_SEEDS", "24"))
SLICES = 8
played = functools.cache(play)


@pytest.mark.parametrize("part", range(SLICES))
def test_no_promise_is_broken(part):
    for seed in range(part, SEEDS, SLICES):
        outcome = played(seed)
        tail = "\n".join(outcome.trace[-30:])
        assert outcome.violation is None, f"SEED={seed} {outcome.faults}\n{tail}"
        assert outcome.acknowledged
        assert outcome.read


# 20 stops among clients, 6 has members of a group beside transactions
@pytest.mark.parametrize("seed", [6, 7, 20])
def test_a_seed_repeats_its_run_exactly(seed):
    once, again = played(seed), play(seed)
    assert once.trace == again.trace
    assert once.steps == again.steps
    assert played(8).trace_hash != once.trace_hash


def test_a_seed_repeats_its_run_in_another_process():
    program = "from tests.simulation.story import play; print(play(7).trace_hash)"
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(played(7).trace_hash)
