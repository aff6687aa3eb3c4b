"""A partition's batches as a few numbers each, and what ends a transaction, naively."""

from itertools import accumulate

import numpy as np

from broker.records.kinds import ABORT, COMMIT, DAMAGED, PLAIN, Kinds
from jobs.batches import Batches, Places

Special = tuple[int, ...]
"""Kind, producer, epoch (else 0), of a marker the first offset that it decides (else
-1: it does not say), and how many offsets it has (else 1)."""


def epoch_of(special: Special) -> int:
    return special[2] if len(special) > 2 else 0


def start_of(special: Special) -> int:
    is_marker = len(special) > 3 and special[0] in (ABORT, COMMIT)
    return special[3] if is_marker else -1


def count_of(special: Special) -> int:
    return special[4] if len(special) > 4 else 1


def bases_of(specials: list[Special]) -> list[int]:
    """The first offset of each, and where the last of them ends."""
    return [0, *accumulate(count_of(one) for one in specials)]


def chunk_of(specials: list[Special], first: int, sequence: int) -> Batches:
    """Those of a segment, of which ``first`` is the first offset."""
    bounds = first + np.array(bases_of(specials), np.int64)
    base, last = bounds[:-1], bounds[1:] - 1
    kinds = Kinds(
        np.array([one[0] for one in specials], np.uint8),
        np.array([one[1] for one in specials], np.int64),
        np.array([epoch_of(one) for one in specials], np.int16),
        np.array([start_of(one) for one in specials], np.int64),
    )
    is_plain = all(one[0] == PLAIN for one in specials)
    one = np.ones(len(specials), np.int64)
    places = Places.of(base, last, base, one)
    return Batches.all_of(sequence, "s", places, None if is_plain else kinds)


def end_by_hand(
    at: int, specials: list[Special], lost: frozenset[int] = frozenset()
) -> int | None:
    """Which marker ends the transaction of the records at a place; None: none does, or
    none is known. ``lost``: of which of them nothing is known."""
    there = [n for n, one in enumerate(specials) if one[0] != DAMAGED and n not in lost]
    its = [n for n in there if specials[n][1] == specials[at][1]]
    markers = [n for n in its if specials[n][0] in (ABORT, COMMIT)]
    before = max((n for n in markers if n < at), default=-1)
    end = min((n for n in markers if n > at), default=None)
    if end is None:
        return None
    mates = [n for n in its if before < n < end]
    epochs = [epoch_of(specials[n]) for n in mates]
    if epochs[-1] != epoch_of(specials[at]):
        return None
    decides = start_of(specials[end]) <= bases_of(specials)[at]
    if start_of(specials[end]) < 0:
        last_of_other = [
            n
            for n, epoch in zip(mates, epochs, strict=True)
            if epoch != epochs[-1] and n < at
        ]
        first = min(n for n in mates if n > max(last_of_other, default=-1))
        gone = [n for n in range(first, end) if n not in there]
        is_single = sum(count_of(specials[n]) for n in gone) == 1
        is_again = is_single and mates[-1] < gone[0]
        is_near = is_again or not any(n > at for n in gone)
        decides = is_near and epoch_of(specials[end]) <= epochs[-1] + 1
    return specials[end][0] if decides else None
