"""Dialogues with a group: ``book >> join("a") << joined("a", generation=1)``.

``>>`` says something to the group or lets time pass, ``<<`` names the next answer, and
what is not named must not happen: an answer left over fails at the next ``>>`` and at
the end. Tickets are the names of those who asked; timers run on a clock of their own;
what is to be stored is stored at once, unless the book is told to ``hold``.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from broker.groups.classic import ClassicGroup
from broker.groups.commands import (
    AdmitCommit,
    Alive,
    Command,
    Expire,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Left,
    Refused,
    Resume,
    Sync,
    Synced,
    TimerKey,
    Written,
)
from broker.groups.events import WriteBegan
from broker.groups.group import Group
from broker.groups.limits import GroupLimits
from broker.groups.snapshot import GroupSnapshot
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode

RANGE = (("range", b"meta"),)


class Playbook:
    """A group, its timers, and the answers that nobody named yet.

    At every step it holds the group to the two promises of a machine: deciding changes
    nothing, and replaying the events gives the same group.
    """

    def __init__(self, **limits: int) -> None:
        self.now_ms = 0
        self.limits = GroupLimits(**limits)
        self.begin(Group("g", 0))
        self.timers: dict[TimerKey, int] = {}
        self.answers: deque[tuple[Any, Any]] = deque()
        self.holding = False
        self.stores: deque[WriteBegan] = deque()

    def begin(self, group: Group) -> None:
        self.machine = ClassicGroup(self.limits, group)
        self.replayed = group.copy()

    @property
    def group(self) -> Group:
        return self.machine.group

    def restore(self, snapshot: GroupSnapshot) -> None:
        """Be the group of a snapshot, as after a restart."""
        self.begin(Group.restored("g", snapshot))
        self.say(Resume())

    def say(self, command: Command) -> None:
        """Decide, apply, set the timers; what is to be written waits, or is."""
        before = self.group.copy()
        decision = self.machine.decide(command, self.now_ms)
        assert_equal(self.group, before)
        for event in decision.events:
            self.machine.apply(event)
            self.replayed.apply(event)
        assert_equal(self.group, self.replayed)
        self.answers.extend(decision.replies)
        for key, delay_ms in decision.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                self.timers[key] = self.now_ms + delay_ms
        self.stores.extend(one for one in decision.events if one.durable)
        if not self.holding:
            self.store(ErrorCode.NONE)

    def store(self, code: ErrorCode) -> None:
        """Everything that is to be stored is, or fails."""
        while self.stores:
            self.say(Written(self.stores.popleft().serial, code))

    def tick(self, ms: int) -> None:
        until = self.now_ms + ms
        while due := [k for k, at in self.timers.items() if at <= until]:
            key = min(due, key=self.timers.__getitem__)
            self.now_ms = self.timers.pop(key)
            self.say(Expire(key))
        self.now_ms = until

    def __rshift__(self, say: "Callable[[Playbook], None]") -> "Playbook":
        self.finish()
        say(self)
        return self

    def __lshift__(self, expected: tuple[Any, type, dict[str, Any]] | None):
        if expected is None:
            self.finish()
            return self
        ticket, kind, fields = expected
        assert self.answers, f"no answer; expected {kind.__name__} to {ticket}"
        got_ticket, got = self.answers.popleft()
        assert (got_ticket, type(got)) == (ticket, kind), f"got {got_ticket}: {got}"
        found = {name: getattr(got, name) for name in fields}
        assert found == fields, f"to {ticket}: {got}"
        return self

    def finish(self) -> None:
        assert not self.answers, f"answers that nobody expected: {list(self.answers)}"


nothing = None


def join(ticket: str, member_id: str = "", **fields: Any):
    """A join; without ``member_id`` the new member is called as its ticket."""
    command = Join(
        **{
            "ticket": ticket,
            "member_id": member_id,
            "new_member_id": ticket,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        | fields
    )
    return lambda book: book.say(command)


def again(member_id: str, **fields: Any):
    """A known member joins again."""
    return join(member_id, member_id, **fields)


def sync(member_id: str, generation: int, assignments: dict | None = None, **more: Any):
    pairs = tuple((assignments or {}).items())
    command = Sync(member_id, generation, pairs, ticket=member_id, **more)
    return lambda book: book.say(command)


def heartbeat(member_id: str, generation: int, instance_id: str | None = None):
    command = Heartbeat(member_id, generation, instance_id, ticket=member_id)
    return lambda book: book.say(command)


def leave(*leavers: str | Leaver):
    """Members leave; the codes come as one answer of the ticket "leave"."""
    asked = (Leaver(one) if isinstance(one, str) else one for one in leavers)
    command = Leave(tuple(asked), "leave")
    return lambda book: book.say(command)


def commit(member_id: str, generation: int, instance_id: str | None = None, **fields):
    command = AdmitCommit(
        member_id, instance_id, generation, ticket=member_id, **fields
    )
    return lambda book: book.say(command)


def tick(ms: int):
    return lambda book: book.tick(ms)


def hold(book: Playbook) -> None:
    """From now on the catalog is slow: nothing is stored until a test says so."""
    book.holding = True


def stored(code: str = "NONE"):
    """What waits to be stored is, or fails with a code."""
    return lambda book: book.store(ErrorCode[code])


def left(*codes: str):
    return "leave", Left, {"codes": tuple(ErrorCode[code] for code in codes)}


def joined(ticket: str, **fields: Any):
    return ticket, Joined, fields


def synced(ticket: str, assignment: bytes):
    return ticket, Synced, {"assignment": assignment}


def alive(ticket: str):
    return ticket, Alive, {}


def refused(ticket: str, code: str, **fields: Any):
    return ticket, Refused, {"code": ErrorCode[code], **fields}


def completing(book: Playbook, *names: str, **fields: Any) -> int:
    """Bring an empty group to where these have joined and nobody has synced."""
    for name in names:
        book >> join(name, **fields)
    while not book.answers:
        book.tick(1_000)
    book.answers.clear()
    assert book.group.state is GroupState.COMPLETING_REBALANCE
    return book.group.generation


def stable(book: Playbook, *names: str, **fields: Any) -> int:
    """Bring an empty group to Stable with these members; gives the generation."""
    generation = completing(book, *names, **fields)
    for name in names[1:]:
        book >> sync(name, generation)
    book >> sync(names[0], generation, {name: name.encode() for name in names})
    book.answers.clear()
    return generation


def assert_equal(one: Group, other: Group) -> None:
    """Equal, members in the same order included."""
    assert one == other
    assert list(one.roster) == list(other.roster)
