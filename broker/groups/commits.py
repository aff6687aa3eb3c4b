"""The committed offsets of all groups, as a machine.

What is fetched comes from memory, and nothing is visible that a crash could take back:
a change is *written* first (its event is durable), and only the command that says so
shows it. Until then it is in ``writing``, by its serial, and one that could not be
written is dropped from there, so that there is nothing to undo.

Offsets that are committed within a transaction are *pending* until it ends
(TxnOffsetCommit): nobody is given them, and what they may become is not given as stable
either. Then they are the group's, or never were. What the group says outside of
transactions meanwhile is newer, so it takes the place of what is pending.

The price: all offsets of all groups are in memory (a tuple each).

Source, of what is pending: Kafka's ``OffsetMetadataManager``
(``replayEndTransactionMarker``, ``pendingTransactionalOffsets``).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from broker.groups.offset_bytes import (
    OFFSET_BYTES,
    added_bytes,
    bytes_of,
    group_bytes_of,
)
from broker.groups.offsets import Committed
from broker.groups.pending_partitions import PendingPartitions
from broker.ids import ProducerId, Superseded, TopicPartition
from broker.machine import Decision, Ticket
from broker.protocol.errors import ErrorCode

_NONE: Mapping[TopicPartition, Committed] = MappingProxyType({})

Pending = dict[ProducerId, dict[TopicPartition, Committed]]
"""Of one group, by the producer whose transaction it is."""


@dataclass(frozen=True, slots=True)
class ChangeOffsets:
    """Set offsets of a group, and forget others: those named, or, None, all of them.

    Forgetting all of them is forgetting the group.
    """

    group_id: str
    upserts: Mapping[TopicPartition, Committed]
    removed: tuple[TopicPartition, ...] | None = ()
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class AddPending:
    """Set offsets of a group within a producer's transaction."""

    group_id: str
    producer_id: ProducerId
    offsets: Mapping[TopicPartition, Committed]
    ticket: Ticket = None


@dataclass(frozen=True, slots=True)
class EndPending:
    """A producer's transaction is over: what it left pending in a group counts if it
    ``commits``. May be asked again. ``some``: of all that is pending only these."""

    group_id: str
    producer_id: ProducerId
    commits: bool
    ticket: Ticket = None
    some: Mapping[TopicPartition, Committed] | None = None


@dataclass(frozen=True, slots=True)
class OffsetsWritten:
    """A change is durable, or could not be written (``code``)."""

    serial: int
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Changed:
    """The reply to who asked for a change: it is durable."""


@dataclass(frozen=True, slots=True)
class OffsetsChanging:
    """A change is to be durable; nobody sees it yet. ``supersedes``: something may be
    pending whose place it takes."""

    durable: ClassVar[bool] = True

    serial: int
    group_id: str
    upserts: Mapping[TopicPartition, Committed]
    removed: tuple[TopicPartition, ...] | None
    supersedes: bool = False

    def change(self, commits: "Commits") -> None:
        commits.begin(self)

    def show(self, commits: "Commits") -> None:
        commits.put(self.group_id, self.upserts, self.removed)
        gone = None if self.removed is None else (*self.removed, *self.upserts)
        commits.supersede(self.group_id, gone)


@dataclass(frozen=True, slots=True)
class PendingAdding:
    """Offsets are to be pending, durably."""

    durable: ClassVar[bool] = True

    serial: int
    group_id: str
    producer_id: ProducerId
    upserts: Mapping[TopicPartition, Committed]

    def change(self, commits: "Commits") -> None:
        commits.begin(self)

    def show(self, commits: "Commits") -> None:
        commits.add_pending(self.group_id, self.producer_id, self.upserts)


@dataclass(frozen=True, slots=True)
class PendingEnding:
    """What a producer left pending, or ``some`` of it, is to be the group's, or
    nobody's, durably. ``older``: what others may have pending, and before when it was
    said if it is superseded."""

    durable: ClassVar[bool] = True

    serial: int
    group_id: str
    producer_id: ProducerId
    commits: bool
    ending: int = 0
    """About how many they are."""
    some: Mapping[TopicPartition, Committed] | None = None
    older: tuple[Superseded, ...] = ()
    upserts: ClassVar[Mapping[TopicPartition, Committed]] = _NONE

    def change(self, commits: "Commits") -> None:
        commits.begin(self)

    def show(self, commits: "Commits") -> None:
        offsets = commits.take_pending(self.group_id, self.producer_id, self.some)
        if offsets and self.commits:
            commits.put(self.group_id, offsets, ())
            commits.supersede_older(self.group_id, offsets)


Changing = OffsetsChanging | PendingAdding | PendingEnding


@dataclass(frozen=True, slots=True)
class OffsetsChanged:
    """A change that is durable is seen."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, commits: "Commits") -> None:
        commits.end(self.serial).show(commits)


@dataclass(frozen=True, slots=True)
class ChangeDropped:
    """A change could not be written, and is not made."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, commits: "Commits") -> None:
        commits.end(self.serial)


OffsetEvent = Changing | OffsetsChanged | ChangeDropped
OffsetCommand = ChangeOffsets | AddPending | EndPending | OffsetsWritten


@dataclass(slots=True)
class Commits:
    """The offsets that are durable, by group, and the changes that are not yet."""

    groups: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    writing: dict[int, Changing] = field(default_factory=dict)
    writing_of: dict[str, dict[int, Changing]] = field(default_factory=dict)
    """The same, by group."""
    writes: int = 0
    held_bytes: int = 0
    """About what the durable offsets take in memory, and the changes that are not."""
    held_of: Counter[str] = field(default_factory=Counter)
    """About what the durable offsets of a group take."""
    held_pending: Counter[tuple[str, ProducerId]] = field(default_factory=Counter)
    """About what is pending in a group for a producer takes."""
    producers: PendingPartitions = field(default_factory=PendingPartitions)
    """The same as ``pending``, by partition."""
    newest_ms: int = 0
    """When the newest that was ever pending was said."""

    def decide(
        self, command: OffsetCommand, now_ms: int
    ) -> Decision[OffsetEvent, Changed]:
        """Return what a command means; who asked for a change hears when it is made."""
        if isinstance(command, OffsetsWritten):
            durable = command.code is ErrorCode.NONE
            ended = OffsetsChanged if durable else ChangeDropped
            return Decision((ended(command.serial),))
        changing = self._changing(command)
        events = () if changing is None else (changing,)
        return Decision(events, ((command.ticket, Changed()),))

    def _changing(
        self, command: ChangeOffsets | AddPending | EndPending
    ) -> Changing | None:
        """What is to be written; None: nothing is."""
        serial, group_id = self.writes + 1, command.group_id
        match command:
            case ChangeOffsets(_, upserts, removed):
                supersedes = self._may_be_pending(group_id)
                return OffsetsChanging(serial, group_id, upserts, removed, supersedes)
            case AddPending(_, producer_id, offsets) if offsets:
                newest = self._behind_others(group_id, producer_id, offsets)
                return PendingAdding(serial, group_id, producer_id, newest)
            case EndPending(_, producer_id, commits, _, some) if self._may_be_pending(
                group_id
            ):
                all_of_it = self.count_pending(group_id, producer_id)
                return PendingEnding(
                    serial, group_id, producer_id, commits,
                    all_of_it if some is None else len(some), some,
                    tuple(self._older(group_id, producer_id, some)) if commits else (),
                )  # fmt: skip
        return None

    def _behind_others(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: Mapping[TopicPartition, Committed],
    ) -> Mapping[TopicPartition, Committed]:
        """What is said last is the newest, also where the wall clock was set back, and
        of what is said in one millisecond."""
        others = self._others(group_id, producer_id, offsets)
        shared, least_ms = {key for _, key in others}, self.newest_ms + 1
        return dict(offsets) | {
            key: offsets[key]._replace(committed_ms=least_ms)
            for key in shared
            if offsets[key].committed_ms < least_ms
        }

    def _older(
        self,
        group_id: str,
        producer_id: ProducerId,
        some: Iterable[TopicPartition] | None,
    ) -> Iterator[Superseded]:
        """What others have pending, or are about to, for what a producer has."""
        there = self.pending.get(group_id, {}).get(producer_id, {})
        keys = there if some is None else some
        ended = {key: there[key] for key in keys if key in there}
        for one in self._adding(group_id):
            if one.producer_id == producer_id:
                added = one.upserts.items()
                ended |= {k: new for k, new in added if some is None or k in some}
        for other, key in self._others(group_id, producer_id, ended):
            yield other, key, ended[key].committed_ms

    def _others(
        self,
        group_id: str,
        producer_id: ProducerId,
        keys: Mapping[TopicPartition, Committed],
    ) -> Iterator[tuple[ProducerId, TopicPartition]]:
        """Which other producers have these pending, or are about to."""
        found: list[tuple[ProducerId, Collection[TopicPartition]]]
        found = list(self.producers.by_producer(group_id, keys).items())
        for one in self._adding(group_id):
            found.append((one.producer_id, one.upserts.keys() & keys.keys()))
        for other, here in found:
            if other != producer_id:
                yield from ((other, key) for key in here)

    def _adding(self, group_id: str) -> list[PendingAdding]:
        writing = self.writing_of.get(group_id, {}).values()
        return [one for one in writing if isinstance(one, PendingAdding)]

    def count_pending(self, group_id: str, producer_id: ProducerId) -> int:
        """How many offsets a producer left pending in a group, or is about to."""
        on_their_way = sum(
            len(one.upserts)
            for one in self._adding(group_id)
            if one.producer_id == producer_id
        )
        return on_their_way + len(self.pending.get(group_id, {}).get(producer_id, ()))

    def _may_be_pending(self, group_id: str) -> bool:
        """Whether something of a group is pending, or on its way to be."""
        return group_id in self.pending or bool(self._adding(group_id))

    def apply(self, event: OffsetEvent) -> None:
        """Change by one event."""
        event.change(self)

    def begin(self, changing: Changing) -> None:
        """Take note of a change that is on its way."""
        self.writes = changing.serial
        self.held_bytes += group_bytes_of(changing.group_id, changing.upserts)
        self.writing[changing.serial] = changing
        self.writing_of.setdefault(changing.group_id, {})[changing.serial] = changing
        if isinstance(changing, PendingAdding):
            self._note_newest(changing.upserts)

    def _note_newest(self, pending: Mapping[TopicPartition, Committed]) -> None:
        of_these = (one.committed_ms for one in pending.values())
        self.newest_ms = max(self.newest_ms, *of_these)

    def end(self, serial: int) -> Changing:
        """Forget a change that was on its way; returns it."""
        ended = self.writing.pop(serial)
        self.held_bytes -= group_bytes_of(ended.group_id, ended.upserts)
        of_group = self.writing_of[ended.group_id]
        del of_group[serial]
        if not of_group:
            del self.writing_of[ended.group_id]
        return ended

    def put(
        self,
        group_id: str,
        upserts: Mapping[TopicPartition, Committed],
        removed: Iterable[TopicPartition] | None = (),
    ) -> None:
        """Make a change of the durable offsets.

        Those of a group that goes are left as they are, for whoever looks at them yet.
        """
        if removed is None:
            self._forget(group_id)
        self._count(group_id, self.added_bytes(group_id, {}))
        offsets = self.groups.setdefault(group_id, {})
        gone = [offsets.pop(key) for key in removed or () if key in offsets]
        freed = sum(OFFSET_BYTES + len(before.metadata) for before in gone)
        added = self.added_bytes(group_id, upserts)
        self._count(group_id, added - freed)
        offsets.update(upserts)
        if not offsets:
            self._forget(group_id)

    def _count(self, group_id: str, added: int) -> None:
        self.held_bytes += added
        self.held_of[group_id] += added

    def _forget(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self.held_bytes -= self.held_of.pop(group_id, 0)

    def added_bytes(
        self, group_id: str, upserts: Mapping[TopicPartition, Committed]
    ) -> int:
        """How much more the offsets would take with these; none if they are there."""
        return added_bytes(group_id, self.groups.get(group_id), upserts)

    def added_pending_bytes(
        self,
        group_id: str,
        producer_id: ProducerId,
        upserts: Mapping[TopicPartition, Committed],
    ) -> int:
        """How much more the offsets would take with these, pending for a producer;
        none if they are there."""
        there = self.pending.get(group_id, {}).get(producer_id)
        return added_bytes(group_id, there, upserts)

    def add_pending(
        self,
        group_id: str,
        producer_id: ProducerId,
        upserts: Mapping[TopicPartition, Committed],
    ) -> None:
        """A producer's transaction has these offsets of a group as well."""
        added = self.added_pending_bytes(group_id, producer_id, upserts)
        self._count_pending_bytes(group_id, producer_id, added)
        of_group = self.pending.setdefault(group_id, {})
        of_group.setdefault(producer_id, {}).update(upserts)
        self.producers.add(group_id, producer_id, upserts)

    def set_pending(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: dict[TopicPartition, Committed],
    ) -> None:
        """What a producer's transaction has of a group is this; nothing, if empty."""
        of_group = self.pending.setdefault(group_id, {})
        gone = of_group.pop(producer_id, {})
        self.producers.remove(group_id, producer_id, gone)
        self.held_bytes -= self.held_pending.pop((group_id, producer_id), 0)
        if offsets:
            of_group[producer_id] = offsets
            self.producers.add(group_id, producer_id, offsets)
            self._note_newest(offsets)
            added = group_bytes_of(group_id, offsets)
            self._count_pending_bytes(group_id, producer_id, added)
        if not of_group:
            del self.pending[group_id]

    def _count_pending_bytes(
        self, group_id: str, producer_id: ProducerId, added: int
    ) -> None:
        self.held_bytes += added
        self.held_pending[group_id, producer_id] += added

    def supersede(self, group_id: str, keys: Iterable[TopicPartition] | None) -> None:
        """Forget what is pending for these partitions of a group; None: for all."""
        gone: Mapping[ProducerId, Iterable[TopicPartition] | None]
        if keys is None:
            gone = dict.fromkeys(self.pending.get(group_id, {}))
        else:
            gone = self.producers.by_producer(group_id, keys)
        for producer_id, here in gone.items():
            self.take_pending(group_id, producer_id, here)

    def supersede_older(
        self, group_id: str, newer: Mapping[TopicPartition, Committed]
    ) -> None:
        """Forget what was pending for a partition of a group before it was committed
        in a transaction that is over."""
        for producer_id, keys in self.producers.by_producer(group_id, newer).items():
            pending = self.pending[group_id][producer_id]
            gone = [key for key in keys if pending[key].is_older_than(newer[key])]
            if gone:
                self.take_pending(group_id, producer_id, gone)

    def take_pending(
        self,
        group_id: str,
        producer_id: ProducerId,
        keys: Iterable[TopicPartition] | None,
    ) -> Mapping[TopicPartition, Committed]:
        """Forget what a producer has pending for these partitions; None: for all.

        Returns it.
        """
        offsets = self.pending.get(group_id, {}).get(producer_id, {})
        here = None if keys is None else [key for key in keys if key in offsets]
        if here is None or len(here) == len(offsets):
            self.set_pending(group_id, producer_id, {})
            return offsets
        taken = {key: offsets.pop(key) for key in here}  # what stays may be very much
        if taken:
            self.producers.remove(group_id, producer_id, taken)
            self._count_pending_bytes(group_id, producer_id, -bytes_of(taken))
        return taken

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of one group."""
        return self.groups.get(group_id, _NONE)

    def unstable(self, group_id: str) -> tuple[Collection[TopicPartition], ...]:
        """The partitions of a group whose offset an open transaction may change, of
        each transaction for itself, since they may be very many."""
        return tuple(self.pending.get(group_id, {}).values())

    def being_committed(
        self, group_id: str, keys: Iterable[TopicPartition]
    ) -> set[TopicPartition]:
        """Return those of these partitions for which a commit of the group is on its
        way, be it within a transaction that is open."""
        asked = set(keys)
        writing = self.writing_of.get(group_id, {}).values()
        found = {key for one in writing for key in one.upserts.keys() & asked}
        return found | {key for key in asked if self.producers.producers(group_id, key)}

    def ids(self) -> Iterator[str]:
        """Every group that has offsets, if only pending ones."""
        yield from self.groups
        yield from (one for one in self.pending if one not in self.groups)

    def knows(self, group_id: str) -> bool:
        """Whether a group has offsets, if only pending ones."""
        return group_id in self.groups or group_id in self.pending
