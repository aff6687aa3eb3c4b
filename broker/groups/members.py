"""Who is in a group: its members, and the counts that make each question cheap.

A rebalance of hundreds of members asks "has everybody joined?" and "which assignors do
all of them know?" once per join. Both are kept as counts here, so that a join costs its
own protocols and not the whole group; the price is that every change of a member goes
through the roster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker.groups.commands import Protocols, Ticket


@dataclass(slots=True)
class Member:
    """One member, and the request of it that is parked, if any.

    ``is_new`` holds until its first join is answered: it does not know its id, cannot
    heartbeat, and is not kept alive by its parked join for ever.
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

    def parked(self) -> bool:
        """Whether a join or a sync of it waits for our answer: it is alive, then."""
        return self.join_ticket is not None or self.sync_ticket is not None


class Roster:
    """The members of one group in order of arrival, static names, pending ids."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self._joining = 0
        self.pending: set[str] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        """The member of that id, or None; a pending id is not a member."""
        return self._members.get(member_id)

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

    def add(self, member: Member) -> None:
        """Take a member in; its id stops being pending."""
        assert member.member_id not in self._members
        assert self.static_id(member.instance_id) is None
        self.pending.discard(member.member_id)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        self._count(member.protocols, 1)
        self._joining += member.join_ticket is not None

    def remove(self, member: Member) -> None:
        """Let a member go."""
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        self._count(member.protocols, -1)
        self._joining -= member.join_ticket is not None

    def park_join(self, member: Member, ticket: Ticket | None) -> Ticket | None:
        """Set (or with None clear) a member's parked join; gives the one before."""
        assert self._members[member.member_id] is member
        before, member.join_ticket = member.join_ticket, ticket
        self._joining += (ticket is not None) - (before is not None)
        return before

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace what a member supports."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols

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
        for name in {name for name, _ in protocols}:
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]


def _first_of(protocols: Protocols, candidates: Iterable[str]) -> str:
    for name, _ in protocols:
        if name in candidates:
            return name
    raise AssertionError("a member joined that shares no protocol")
