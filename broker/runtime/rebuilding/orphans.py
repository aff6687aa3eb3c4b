"""How a transaction ends whose coordinator forgot it with the catalog.

The problem: its records may lie in several partitions, some with a marker and some
without, and nobody will ever write the others: what is open stays so, and holds back
the table and everybody who reads what is committed. The idea: the markers of one
transaction are all written before its producer begins the next, so a marker of the
producer that lies behind the first record of what is open, in whatever partition, is
of this very transaction, and says how it ends everywhere. Where there is none it is
aborted: whoever commits is answered when all markers are durable, so nobody was
promised anything, and nobody can commit it any more, since the new coordinator does not
know its transactional id.

What is decided becomes a row of a transactional id of its own, in the state in which a
start of the broker finds what a crash left undone, and writes the markers. An abort
fences the producer, as that of one who ran out of time. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.ids import ProducerId, TopicPartition
from broker.transactions.metadata import EPOCH_MAX, V1, V2, TransactionMetadata
from broker.transactions.states import TransactionState

TIMEOUT_MS: Final = 60_000


class OpenPart(NamedTuple):
    """What is open in one partition from the offset ``first`` on, where the batch lies
    at ``location``; None: in no segment that can be read."""

    producer_id: ProducerId
    epoch: int
    key: TopicPartition
    first: int
    location: int | None


class SeenMarker(NamedTuple):
    """A marker in the log; its epoch is that of the records, or one above."""

    producer_id: ProducerId
    epoch: int
    key: TopicPartition
    location: int
    commits: bool


class Ended(NamedTuple):
    """A transaction and its end. ``proof``: the partition that has its marker."""

    transactional_id: str
    metadata: TransactionMetadata
    parts: tuple[OpenPart, ...]
    proof: TopicPartition | None = None

    @property
    def commits(self) -> bool:
        return self.metadata.state is TransactionState.PREPARE_COMMIT


def ended(
    open_: Iterable[OpenPart], markers: Sequence[SeenMarker], now_ms: int
) -> list[Ended]:
    """The end of each transaction that is open, by producer."""
    parts: dict[tuple[ProducerId, int], list[OpenPart]] = defaultdict(list)
    for part in open_:
        parts[part.producer_id, part.epoch].append(part)
    return [_ended(found, markers, now_ms) for _, found in sorted(parts.items())]


def _ended(parts: list[OpenPart], markers: Sequence[SeenMarker], now_ms: int) -> Ended:
    producer_id, epoch = parts[0][:2]
    proof = _proof(parts, markers)
    commits = proof is not None and proof.commits
    is_bumped = not commits or (proof is not None and proof.epoch > epoch)
    metadata = TransactionMetadata(
        producer_id,
        min(epoch + is_bumped, EPOCH_MAX),
        TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
        TIMEOUT_MS,
        previous_producer_id=producer_id,
        last_epoch=epoch if is_bumped else -1,
        partitions=frozenset(part.key for part in parts),
        started_ms=now_ms,
        updated_ms=now_ms,
        version=V2 if commits and is_bumped else V1,
    )
    name = f"lakelog-rebuild-{producer_id}-{epoch}"
    key = None if proof is None else proof.key
    return Ended(name, metadata, tuple(sorted(parts)), key)


def _proof(
    parts: Iterable[OpenPart], markers: Iterable[SeenMarker]
) -> SeenMarker | None:
    """The first marker behind the beginning of all of it, in any partition."""
    behind = -1
    for part in parts:
        if part.location is None:
            return None
        behind = max(behind, part.location)
        producer_id, epoch = part[:2]
    for marker in markers:
        is_its = marker.producer_id == producer_id and 0 <= marker.epoch - epoch <= 1
        if is_its and marker.location > behind:
            return marker
    return None
