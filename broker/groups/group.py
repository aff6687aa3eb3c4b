"""The state of a classic group: a value that changes by events, and what it shows.

Everything that a group knows is in one dataclass, parked requests (as tickets) and
writes under way included, so that two groups that saw the same events are equal, and a
test can hold a group against its replay. ``events.py`` has the changes, ``classic.py``
decides them; the views here are what administrators, retention and the catalog see.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol

from broker.groups.members import Member, Roster
from broker.groups.offsets import RetentionState
from broker.groups.snapshot import GroupSnapshot, MemberSnapshot
from broker.groups.states import GroupState
from broker.groups.subscription import CONSUMER, subscribed_topics
from broker.machine import Ticket


class MemberView(NamedTuple):
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupView(NamedTuple):
    """A group as an administrator sees it."""

    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberView, ...] = ()


class Takeover(NamedTuple):
    """A static member's new id is being written; its join is answered then."""

    member_id: str
    ticket: Ticket
    leader_before: str
    can_skip_assignment: bool


GROUP_BYTES = 4 << 10
"""What a group takes that nobody is in, its machine included; rounded up."""

ASSIGNMENT = "assignment"
"""What is being written is the leader's assignment: all parked syncs wait for it."""

Purpose = Takeover | str


class GroupEvent(Protocol):
    """Something that happened to a group (``events.py``)."""

    durable: ClassVar[bool]

    def change(self, group: "Group") -> None: ...


@dataclass(slots=True)
class Group:
    """One classic group. ``empty_since_ms`` is wall clock, None while it is not empty.

    ``unsynced`` are those who were told of this generation and have not synced: gone if
    they never do. While an empty group fills, ``initial_remaining_ms`` is what is left
    of the initial wait, and ``arrived`` whether somebody came since it was extended.
    ``writing`` has what goes on when a write is done, by its serial. ``said`` is what
    members had said for the assignor when the generation began, None before the first.
    """

    group_id: str
    empty_since_ms: int | None
    state: GroupState = GroupState.EMPTY
    state_before: GroupState = GroupState.EMPTY
    generation: int = 0
    leader_id: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    roster: Roster = field(default_factory=Roster)
    unsynced: set[str] = field(default_factory=set)
    initial_remaining_ms: int = 0
    arrived: bool = False
    writes: int = 0
    writing: dict[int, Purpose] = field(default_factory=dict)
    said: tuple[bytes, ...] | None = None

    @classmethod
    def restored(cls, group_id: str, snapshot: GroupSnapshot) -> "Group":
        """The group that was stored; its sessions are for the caller to start."""
        group = cls(group_id, snapshot.empty_since_ms)
        group.protocol_type, group.generation = snapshot[:2]
        group.protocol_name, group.leader_id = snapshot[2:4]
        for stored in snapshot.members:
            group.roster.put(Member(*stored, is_new=False))
        if snapshot.members:
            group.state = GroupState.STABLE  # the one state that is not moved into
        group.said = group.metadata()
        return group

    def metadata(self) -> tuple[bytes, ...]:
        """What each member says for the assignor that was chosen."""
        return tuple(member.metadata(self.protocol_name) for member in self.roster)

    def apply(self, event: GroupEvent) -> None:
        """Change by one event."""
        event.change(self)

    def copy(self) -> "Group":
        """A group of its own that is equal; members are shared, they do not change."""
        return replace(
            self,
            roster=self.roster.copy(),
            unsynced=self.unsynced.copy(),
            writing=self.writing.copy(),
        )

    def filling(self) -> bool:
        """Whether this is the first rebalance of a group that was empty."""
        return (
            self.state is GroupState.PREPARING_REBALANCE
            and self.state_before is GroupState.EMPTY
        )

    def snapshot(self) -> GroupSnapshot:
        """What is to outlive the broker, of a group whose assignments are known."""
        members = (
            MemberSnapshot(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                m.protocols,
                m.assignment,
            )
            for m in self.roster
        )
        return GroupSnapshot(
            self.protocol_type,
            self.generation,
            self.protocol_name,
            self.leader_id,
            self.empty_since_ms,
            tuple(members),
        )

    def describe(self) -> GroupView:
        """The group as DescribeGroups shows it.

        Metadata belongs to an assignor that everybody agreed on, so it is shown for a
        stable group only; an assignment holds until the next one is given
        (``ClassicGroup.describe``).
        """
        stable = self.state is GroupState.STABLE
        name = self.protocol_name if stable else ""
        members = tuple(
            MemberView(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.metadata(name),
                m.assignment,
            )
            for m in self.roster
        )
        return GroupView(self.state, self.protocol_type, name, members)

    def is_simple_or_consumers(self) -> bool:
        """Whether nobody is in it, or consumers, whose subscriptions can be read."""
        empty = self.state is GroupState.EMPTY
        return empty or self.protocol_type == CONSUMER

    def reads(self, topic_name: str) -> bool:
        """Whether some member reads a topic, as of when the generation began; yes, if
        that is not known (``ClassicGroup.isSubscribedToTopic``)."""
        if not len(self.roster):
            return False
        if self.protocol_type != CONSUMER or self.said is None:
            return True
        topics = _topics_of(self.said)
        return topics is None or topic_name in topics

    def subscribed(self) -> frozenset[str] | None:
        """Topics that some consumer reads; None when that cannot be known."""
        if self.protocol_type != CONSUMER or not self.protocol_name:
            return None
        return _topics_of(self.metadata())

    def retention_state(self) -> RetentionState:
        """What the retention of its offsets depends on (KIP-211)."""
        stable = self.state is GroupState.STABLE
        return RetentionState(
            self.empty_since_ms, self.subscribed() if stable else None
        )

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory, with its members."""
        return GROUP_BYTES + len(self.group_id) + self.roster.held_bytes

    def parked(self) -> Iterator[Ticket]:
        """The tickets that have no answer yet."""
        for member in self.roster:
            for ticket in (member.join_ticket, member.sync_ticket):
                if ticket is not None:
                    yield ticket

    def abandoned(self) -> bool:
        """Whether nobody is in it or on the way."""
        return self.state is GroupState.EMPTY and not self.roster.pending

    def never_used(self) -> bool:
        """Whether nobody ever was in it, so that nothing is lost with it."""
        return self.abandoned() and not self.generation


def _topics_of(said: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions; None if one of them is none."""
    topics: set[str] = set()
    for metadata in said:
        found = subscribed_topics(metadata)
        if found is None:
            return None
        topics |= found
    return frozenset(topics)
