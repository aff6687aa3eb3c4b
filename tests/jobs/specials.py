"""A partition's batches as a few numbers each, and what ends a transaction, naively."""

import numpy as np

from broker.records.kinds import ABORT, COMMIT, DAMAGED, PLAIN, Kinds
from jobs.planner import Batches

Special = tuple[int, ...]
"""Kind, producer, epoch (else 0), and of a marker the first offset that it decides
(else 0: it does not say)."""


def epoch_of(special: Special) -> int:
    return special[2] if len(special) > 2 else 0


def start_of(special: Special) -> int:
    is_marker = len(special) > 3 and special[0] in (ABORT, COMMIT)
    return special[3] if is_marker else 0


def chunk_of(specials: list[Special], first: int, sequence: int) -> Batches:
    count = len(specials)
    base = first + np.arange(count, dtype=np.int64)
    kinds = Kinds(
        np.array([one[0] for one in specials], np.uint8),
        np.array([one[1] for one in specials], np.int64),
        np.array([epoch_of(one) for one in specials], np.int16),
        np.array([start_of(one) for one in specials], np.int64),
    )
    is_plain = all(one[0] == PLAIN for one in specials)
    one = np.ones(count, np.int64)
    return Batches(sequence, "s", base, base, base, one, None if is_plain else kinds)


def end_by_hand(record: Special, at: int, later: list[Special]) -> int | None:
    """Which marker ends its transaction; None: none does, or none is known."""
    epoch = newest = epoch_of(record)
    for one in later:
        if one[0] == DAMAGED:
            return None
        if one[1] == record[1] and one[0] in (ABORT, COMMIT):
            is_its = newest == epoch and epoch_of(one) <= epoch + 1
            return one[0] if is_its and at >= start_of(one) else None
        if one[1] == record[1]:
            newest = epoch_of(one)
    return None
