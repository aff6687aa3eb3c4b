"""``python -m tests.simulation``: seeds until they are done or time is up.

SEED=7 repeats one and prints its trace; SEEDS=1000 and FIRST=0 say which, SECONDS=3600
how long at most. DEFECTS=20 looks for each defect of ``hunts.py`` in so many
seeds, and tells in how many it was found.
"""

import os
import sys
import time

from tests.simulation.hunts import HUNTS
from tests.simulation.story import play


def main() -> int:
    if sys.argv[1:]:  # what to do is said by the environment
        print(__doc__)
        return 2
    if "SEED" in os.environ:
        outcome = play(int(os.environ["SEED"]), in_order="ORDER" not in os.environ)
        print("\n".join(outcome.trace))
        print(outcome.trace_hash, outcome.violation or "no violation")
        return 1 if outcome.violation else 0
    if "DEFECTS" in os.environ:
        return look_for_defects(int(os.environ["DEFECTS"]))
    first, count = (
        int(os.environ.get("FIRST", "0")),
        int(os.environ.get("SEEDS", "100")),
    )
    limit_s = float(os.environ.get("SECONDS", "1e9"))
    began, broken = time.monotonic(), 0
    seed = first
    while seed < first + count and time.monotonic() - began < limit_s:
        outcome = play(seed, in_order="ORDER" not in os.environ)
        if outcome.violation:
            broken += 1
            print(f"seed {seed} {outcome.faults}: {outcome.violation}", flush=True)
        seed += 1
    took = time.monotonic() - began
    print(f"{seed - first} seeds, {broken} broken, {took:.0f} s")
    return 1 if broken else 0


def look_for_defects(count: int) -> int:
    """How many of the seeds find each defect; 1 if one is found in none."""
    missed = 0
    for name, hunt in HUNTS.items():
        first = hunt.seeds[0]
        found = []
        for seed in range(first, first + count):
            with hunt.defect():
                found += [seed] if hunt.play(seed).violation else []
        missed += not found
        print(f"{len(found):4} of {count}  {name}: seeds {found[:5]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
