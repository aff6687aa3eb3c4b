"""``wal.sync=interval`` under power cuts: what of a transaction outlives them.

A power cut may take what was acknowledged within the last moments. It must not take
what was answered to who ended a transaction, and nobody's transaction may be left
without its marker, or with that of another.
"""

import os

import pytest

from tests.simulation.story import play

SEEDS = int(os.environ.get("LAKELOG_SIM_SEEDS", "24"))
SLICES = 4
CUTS = ("power",) * 3
MUCH = ("power", "power", "kill", "ambush", "failing_sync", "failing_write", "slow")


@pytest.mark.parametrize("part", range(SLICES))
def test_an_answered_transaction_outlives_a_power_cut_whole(part: int) -> None:
    for seed in range(part, SEEDS, SLICES):
        faults = MUCH if seed % 4 == 3 else CUTS
        outcome = play(seed, clients=("relaxed",), faults=faults, seconds=3)
        tail = "\n".join(outcome.trace[-30:])
        assert outcome.violation is None, f"SEED={seed} {outcome.faults}\n{tail}"
        assert outcome.acknowledged
        assert outcome.read
