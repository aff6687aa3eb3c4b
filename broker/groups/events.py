"""What can happen to a group: every change of its state, by name.

An event says what became of the state and not why, so that applying it needs no
decision. One of them is durable: ``WriteBegan`` carries the group as it is to outlive
the broker. The others (who waits, who has synced, how long a wait lasts) end with the
process, and clients ask again.
"""

from dataclasses import dataclass
from typing import ClassVar

from broker.groups.group import ASSIGNMENT, Group, Purpose
from broker.groups.members import Member
from broker.groups.snapshot import GroupSnapshot
from broker.groups.states import GroupState, may_move


@dataclass(frozen=True, slots=True)
class _Passing:
    """Not worth a write: it ends with the process."""

    durable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class MemberPut(_Passing):
    """A member came, or is as this from now on."""

    member: Member

    def change(self, group: Group) -> None:
        group.roster.put(self.member)


@dataclass(frozen=True, slots=True)
class MembersPut(_Passing):
    """Members are as these from now on: one event, however many they are."""

    members: tuple[Member, ...]

    def change(self, group: Group) -> None:
        for member in self.members:
            group.roster.put(member)


@dataclass(frozen=True, slots=True)
class MemberRemoved(_Passing):
    """A member is out."""

    member_id: str

    def change(self, group: Group) -> None:
        group.roster.remove(self.member_id)


@dataclass(frozen=True, slots=True)
class MemberSynced(_Passing):
    """A member asked for its assignment, or will never."""

    member_id: str

    def change(self, group: Group) -> None:
        group.unsynced.discard(self.member_id)


@dataclass(frozen=True, slots=True)
class MemberIdAssigned(_Passing):
    """An id was given out that has not joined yet (KIP-394)."""

    member_id: str

    def change(self, group: Group) -> None:
        group.roster.expect(self.member_id)


@dataclass(frozen=True, slots=True)
class MemberIdDropped(_Passing):
    """An id that was given out will not be waited for any longer."""

    member_id: str

    def change(self, group: Group) -> None:
        group.roster.expect_no_more(self.member_id)


@dataclass(frozen=True, slots=True)
class LeaderElected(_Passing):
    """This member leads; nobody does if it is empty."""

    member_id: str

    def change(self, group: Group) -> None:
        group.leader_id = self.member_id


@dataclass(frozen=True, slots=True)
class TypeChosen(_Passing):
    """The first member said what kind of group this is."""

    protocol_type: str

    def change(self, group: Group) -> None:
        group.protocol_type = self.protocol_type


@dataclass(frozen=True, slots=True)
class StateMoved(_Passing):
    """The group is in another state, since ``now_ms``."""

    state: GroupState
    now_ms: int

    def change(self, group: Group) -> None:
        assert may_move(group.state, self.state), f"{group.state} -> {self.state}"
        group.state_before, group.state = group.state, self.state
        empty = self.state is GroupState.EMPTY
        group.empty_since_ms = self.now_ms if empty else None


@dataclass(frozen=True, slots=True)
class RebalanceBegan(_Passing):
    """The generation is over: nobody has to sync in it, nobody waits for a write."""

    def change(self, group: Group) -> None:
        group.unsynced.clear()
        group.writing.clear()


@dataclass(frozen=True, slots=True)
class MoreJoined(_Passing):
    """Somebody came while an empty group fills: it is worth waiting for more."""

    def change(self, group: Group) -> None:
        group.arrived = True


@dataclass(frozen=True, slots=True)
class WaitExtended(_Passing):
    """An empty group waits for company, and may wait as much longer."""

    remaining_ms: int

    def change(self, group: Group) -> None:
        group.arrived = False
        group.initial_remaining_ms = self.remaining_ms


@dataclass(frozen=True, slots=True)
class GenerationBegan(_Passing):
    """A new generation, of all who are in it: they are to sync."""

    generation: int
    protocol_name: str

    def change(self, group: Group) -> None:
        group.generation = self.generation
        group.protocol_name = self.protocol_name
        group.unsynced.update(member.member_id for member in group.roster)
        group.said = group.metadata()


@dataclass(frozen=True, slots=True)
class WriteBegan:
    """The group is to be durable as this; ``purpose`` is what waits for it."""

    durable: ClassVar[bool] = True

    serial: int
    snapshot: GroupSnapshot
    purpose: Purpose | None = None

    def change(self, group: Group) -> None:
        group.writes = self.serial
        if self.purpose == ASSIGNMENT:  # of a leader that asks again the last counts
            group.writing.clear()
        if self.purpose is not None:
            group.writing[self.serial] = self.purpose


@dataclass(frozen=True, slots=True)
class WriteEnded(_Passing):
    """A write is durable, or failed; nobody waits for it any longer."""

    serial: int

    def change(self, group: Group) -> None:
        group.writing.pop(self.serial, None)
