"""The committed offsets of all groups, as a machine.

What is fetched comes from memory, and nothing is visible that a crash could take back:
a change is *written* first (its event is durable), and only the command that says so
shows it. Until then it is in ``writing``, by its serial, and one that could not be
written is dropped from there, so that there is nothing to undo.

The price: all offsets of all groups are in memory (a tuple each).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from broker.groups.offsets import Committed
from broker.ids import TopicPartition
from broker.machine import Decision, Ticket
from broker.protocol.errors import ErrorCode

GROUP_OFFSETS_BYTES, OFFSET_BYTES = 512, 256
"""What a group with offsets takes beside its id, and an offset beside its metadata."""

_NONE: Mapping[TopicPartition, Committed] = MappingProxyType({})


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
class OffsetsWritten:
    """A change is durable, or could not be written (``code``)."""

    serial: int
    code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Changed:
    """The reply to who asked for a change: it is durable."""


@dataclass(frozen=True, slots=True)
class OffsetsChanging:
    """A change is to be durable; nobody sees it yet."""

    durable: ClassVar[bool] = True

    serial: int
    group_id: str
    upserts: Mapping[TopicPartition, Committed]
    removed: tuple[TopicPartition, ...] | None

    def change(self, commits: "Commits") -> None:
        commits.begin(self)

    @property
    def held_bytes(self) -> int:
        """About what it takes until it is made."""
        metadata = sum(len(one.metadata) for one in self.upserts.values())
        offsets = OFFSET_BYTES * len(self.upserts) + metadata
        return GROUP_OFFSETS_BYTES + len(self.group_id) + offsets


@dataclass(frozen=True, slots=True)
class OffsetsChanged:
    """A change that is durable is seen."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, commits: "Commits") -> None:
        commits.show(commits.end(self.serial))


@dataclass(frozen=True, slots=True)
class ChangeDropped:
    """A change could not be written, and is not made."""

    durable: ClassVar[bool] = False

    serial: int

    def change(self, commits: "Commits") -> None:
        commits.end(self.serial)


OffsetEvent = OffsetsChanging | OffsetsChanged | ChangeDropped
OffsetCommand = ChangeOffsets | OffsetsWritten


@dataclass(slots=True)
class Commits:
    """The offsets that are durable, by group, and the changes that are not yet."""

    groups: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    writing: dict[int, OffsetsChanging] = field(default_factory=dict)
    writing_of: dict[str, dict[int, OffsetsChanging]] = field(default_factory=dict)
    """The same, by group."""
    writes: int = 0
    held_bytes: int = 0
    """About what the durable offsets take in memory, and the changes that are not."""
    held_of: Counter[str] = field(default_factory=Counter)
    """About what the durable offsets of a group take."""

    def decide(
        self, command: OffsetCommand, now_ms: int
    ) -> Decision[OffsetEvent, Changed]:
        """Return what a command means; who asked for a change hears when it is made."""
        if isinstance(command, ChangeOffsets):
            event = OffsetsChanging(
                self.writes + 1, command.group_id, command.upserts, command.removed
            )
            return Decision((event,), ((command.ticket, Changed()),))
        durable = command.code is ErrorCode.NONE
        ended = OffsetsChanged if durable else ChangeDropped
        return Decision((ended(command.serial),))

    def apply(self, event: OffsetEvent) -> None:
        """Change by one event."""
        event.change(self)

    def begin(self, changing: OffsetsChanging) -> None:
        """Take note of a change that is on its way."""
        self.writes = changing.serial
        self.held_bytes += changing.held_bytes
        self.writing[changing.serial] = changing
        self.writing_of.setdefault(changing.group_id, {})[changing.serial] = changing

    def end(self, serial: int) -> OffsetsChanging:
        """Forget a change that was on its way; returns it."""
        ended = self.writing.pop(serial)
        self.held_bytes -= ended.held_bytes
        of_group = self.writing_of[ended.group_id]
        del of_group[serial]
        if not of_group:
            del self.writing_of[ended.group_id]
        return ended

    def show(self, changing: OffsetsChanging) -> None:
        """Make a change of the durable offsets.

        Those of a group that goes are left as they are, for whoever looks at them yet.
        """
        group_id, removed = changing.group_id, changing.removed
        if removed is None:
            self._forget(group_id)
        self._count(group_id, self.added_bytes(group_id, {}))
        offsets = self.groups.setdefault(group_id, {})
        gone = [offsets.pop(key) for key in removed or () if key in offsets]
        freed = sum(OFFSET_BYTES + len(before.metadata) for before in gone)
        added = self.added_bytes(group_id, changing.upserts)
        self._count(group_id, added - freed)
        offsets.update(changing.upserts)
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
        there = self.groups.get(group_id)
        if there is None:
            there, added = {}, GROUP_OFFSETS_BYTES + len(group_id)
        else:
            added = 0
        for key, committed in upserts.items():
            before = there.get(key)
            added += len(committed.metadata)
            added += OFFSET_BYTES if before is None else -len(before.metadata)
        return added

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of one group."""
        return self.groups.get(group_id, _NONE)

    def are_written(self, group_id: str) -> set[TopicPartition]:
        """The partitions of a group for which a commit is on its way."""
        return {
            key
            for change in self.writing_of.get(group_id, {}).values()
            for key in change.upserts
        }

    def ids(self) -> Iterator[str]:
        """Every group that has offsets."""
        return iter(self.groups)
