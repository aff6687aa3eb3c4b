"""Who is in a group: its members, and the counts that make each question cheap.

A rebalance of hundreds of members asks "has everybody joined?" and "which assignors do
all of them know?" once per join. Both are kept as counts here, so that a join costs its
own protocols and not the whole group; the price is that every change of a member goes
through the roster. Members are values: a changed one is put in the place of the old
one, so that a copy of the roster is a copy of its dicts and shares the members.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.groups.commands import Protocols
from broker.machine import Ticket

MEMBER_BYTES, PENDING_BYTES = 2 << 10, 1 << 10
"""What they take beside their texts and bytes, timers included; rounded up."""
METADATA_BYTES, ASSIGNED_BYTES = 1 << 10, 1 << 10
"""Of what it says of its assignors and of what it is assigned, so much is counted from
its join on, said or not: so it goes on with a share of its group, and names what it
owns (cooperative), when there is no room for anybody new. 200 partitions of a topic."""
JOINED_BYTES = MEMBER_BYTES + METADATA_BYTES + ASSIGNED_BYTES
"""What a member takes that says and is assigned no more than that."""


class Member(NamedTuple):
    """One member, and the request of it that is parked, if any.

    ``is_new`` holds until its first join is answered: it does not know its id, cannot
    heartbeat, and is not kept alive by its parked join for ever.

    A tuple, since a decision may make one of each of a thousand members.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = True
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    def metadata(self, protocol_name: str) -> bytes:
        """The metadata this member gave for an assignor; empty if it gave none."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        texts = (self.member_id, self.instance_id or "", self.client_id)
        held = JOINED_BYTES + sum(map(len, texts))
        return held + uncounted_metadata(self.protocols) + uncounted(self.assignment)

    def parked(self) -> bool:
        """Whether a join or a sync of it waits for our answer: it is alive, then."""
        return self.join_ticket is not None or self.sync_ticket is not None


@dataclass(slots=True)
class Roster:
    """The members of one group in order of arrival, static names, pending ids."""

    _members: dict[str, Member] = field(default_factory=dict)
    _static_ids: dict[str, str] = field(default_factory=dict)
    _support: Counter[str] = field(default_factory=Counter)
    _joining: int = 0
    pending: set[str] = field(default_factory=set)
    metadata_bytes: int = 0
    held_bytes: int = 0
    """About what all members and pending ids take in memory."""

    def copy(self) -> "Roster":
        """A roster of its own with the same members; costs a pointer a member."""
        return Roster(
            self._members.copy(),
            self._static_ids.copy(),
            self._support.copy(),
            self._joining,
            self.pending.copy(),
            self.metadata_bytes,
            self.held_bytes,
        )

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        """The member of that id, or None; a pending id is not a member."""
        return self._members.get(member_id)

    def first_id(self) -> str:
        """The id of who is longest in it; empty if nobody is."""
        return next(iter(self._members), "")

    def static_id(self, instance_id: str | None) -> str | None:
        """The member id that holds this ``group.instance.id`` now."""
        return None if instance_id is None else self._static_ids.get(instance_id)

    @property
    def joining(self) -> int:
        """How many members have a join parked."""
        return self._joining

    def all_joined(self) -> bool:
        """Whether every member rejoined and no id is out that has not joined yet."""
        return self._joining == len(self._members) and not self.pending

    def put(self, member: Member) -> None:
        """Take a member in, whose id stops being pending, or replace it by this."""
        before = self._members.get(member.member_id)
        if before is None:
            assert self.static_id(member.instance_id) is None
            self.expect_no_more(member.member_id)
            if member.instance_id is not None:
                self._static_ids[member.instance_id] = member.member_id
        else:
            assert before.instance_id == member.instance_id
            self._joining -= before.join_ticket is not None
        if before is None or not _weighs_the_same(before, member):
            self.held_bytes += member.held_bytes - (before.held_bytes if before else 0)
        if before is None or before.protocols != member.protocols:
            if before is not None:
                self._count(before.protocols, -1)
            self._count(member.protocols, 1)
        self._members[member.member_id] = member
        self._joining += member.join_ticket is not None

    def remove(self, member_id: str) -> None:
        """Take a member out."""
        member = self._members.pop(member_id)
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        self._count(member.protocols, -1)
        self.held_bytes -= member.held_bytes
        self._joining -= member.join_ticket is not None

    def expect(self, member_id: str) -> None:
        """Wait for the member that an id was given to."""
        self.pending.add(member_id)
        self.held_bytes += PENDING_BYTES + len(member_id)

    def expect_no_more(self, member_id: str) -> None:
        """Wait for it no longer; nothing happens if it is not waited for."""
        if member_id in self.pending:
            self.pending.discard(member_id)
            self.held_bytes -= PENDING_BYTES + len(member_id)

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance may wait: the most patient member's timeout."""
        return max((m.rebalance_timeout_ms for m in self._members.values()), default=0)

    def supports_any(self, protocols: Protocols) -> bool:
        """Whether all members know at least one of these assignors."""
        return any(self._support[name] == len(self._members) for name, _ in protocols)

    def vote(self) -> str:
        """The assignor of the next generation.

        Each member votes for the first of its list that all support
        (``ClassicGroup.selectProtocol``); a tie goes to the first that was voted for.
        """
        assert self._members, "nobody to vote"
        common = {n for n, count in self._support.items() if count == len(self)}
        votes = Counter(_first_of(m.protocols, common) for m in self._members.values())
        return max(votes, key=votes.__getitem__)

    def _count(self, protocols: Protocols, by: int) -> None:
        self.metadata_bytes += by * size_of(protocols)
        for name in dict(protocols):  # each once
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]


def _weighs_the_same(before: Member, after: Member) -> bool:
    """Whether it is certain, at a glance: a member is put many times in a rebalance."""
    return (
        before.protocols is after.protocols
        and before.assignment is after.assignment
        and before.client_id is after.client_id
    )


def size_of(protocols: Protocols) -> int:
    """Bytes of names and metadata, a character of a name taken for one."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def uncounted_metadata(protocols: Protocols) -> int:
    """Bytes of names and metadata that are not counted from the join on."""
    return max(size_of(protocols) - METADATA_BYTES, 0)


def uncounted(assignment: bytes) -> int:
    """Bytes of an assignment that are not counted from the join on."""
    return max(len(assignment) - ASSIGNED_BYTES, 0)


def _first_of(protocols: Protocols, candidates: Iterable[str]) -> str:
    for name, _ in protocols:
        if name in candidates:
            return name
    raise AssertionError("a member joined that shares no protocol")
