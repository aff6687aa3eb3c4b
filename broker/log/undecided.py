"""Which records a marker does not decide, because another may be lost before it.

The problem. A damaged place may have held the marker of a transaction whose records
stand before it; then the next marker of the same producer is that of a later one, and
would commit what was aborted, or hide what was committed.

The idea. What stands behind the damage is decided by the next marker whatever was lost.
What stands before it is undecided from the transaction's first record on, and who reads
what is committed gets an error there, until an operator gives it up; nobody who reads
behind it is held back. A marker that was written again decides all the same: it stands
behind a single lost offset, where no record of another transaction can have been beside
the marker, and none of its producer's stands behind that.

Epochs may say that a batch or a marker is of a later transaction, be offsets known to
be lost or not, as where the header of the marker's entry is damaged, too
(`Transactions.separate`): then all records of the first are undecided, and no more.

A marker of version 1 says where its own transaction begins (`Marker.start`), and none
of this is asked: what is open from below is another's (`Transactions.end`).

The price. If the damage took something else, what stands before it in the partition is
undecided as well. And a marker of version 1 that an older program wrote may look like
one written again, if its transaction wrote nothing in the partition.
"""

from collections.abc import Sequence
from typing import NamedTuple

from broker.log.lost import Lost


class Undecided(NamedTuple):
    """Offsets [first, end): from a transaction's first record to behind the damage, or
    to behind its last record."""

    first: int
    end: int


class Ending(NamedTuple):
    """A marker and the transaction that it seems to end.

    ``first`` is the offset of the first record, ``newest`` of the producer's last batch
    before the marker, ``base`` that of the marker; ``bumps`` is by how much its epoch
    is higher than that of the batch.
    """

    first: int
    newest: int
    base: int
    bumps: int


def undecided_by(ending: Ending, lost: Sequence[Lost]) -> Undecided | None:
    """What a marker does not decide, where ``lost`` is; None: it decides all."""
    within = [one for one in lost if ending.first < one.first < ending.base]
    if not within:
        return None
    end = within[-1].end
    is_single = sum(one.end - one.first for one in within) == 1
    if is_single and ending.newest < end and ending.bumps <= 1:
        return None
    return Undecided(ending.first, end)
