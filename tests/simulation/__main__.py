"""``python -m tests.simulation``: seeds until they are done or time is up.

SEED=7 repeats one and prints its trace; SEEDS=1000 and FIRST=0 say which, SECONDS=3600
how long at most.
"""

import os
import sys
import time

from tests.simulation.story import play


def main() -> int:
    if "SEED" in os.environ:
        outcome = play(int(os.environ["SEED"]), in_order="ORDER" not in os.environ)
        print("\n".join(outcome.trace))
        print(outcome.trace_hash, outcome.violation or "no violation")
        return 1 if outcome.violation else 0
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


if __name__ == "__main__":
    sys.exit(main())
