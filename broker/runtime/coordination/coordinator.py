"""The group coordinator: where pure groups meet futures, timers and the clock.

A group decides (``broker/groups``), ``machines.py`` carries out what it decided; this
keeps all groups and gives each command a future as its ticket. So a parked JoinGroup is
an unresolved future, nothing more, and a handler only awaits it. Everything runs on the
event loop, one step at a time; answers that rest on offsets or complete generations
leave when these are durable (``journal.py``).

A broker that comes back goes on with the generations that were complete: members' heart
beats and commits are right, and their sessions start anew. Whoever was in the middle of
a rebalance asks again.
"""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from broker.clock import Clock
from broker.groups.classic import ClassicGroup
from broker.groups.commands import (
    AdmitCommit,
    Command,
    Delete,
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
)
from broker.groups.group import GROUP_BYTES, Group, GroupView
from broker.groups.members import JOINED_BYTES, Roster, uncounted, uncounted_metadata
from broker.groups.offsets import Committed, RetentionState, expired
from broker.groups.snapshot import GroupSnapshot
from broker.groups.states import GroupState
from broker.ids import ProducerId, TopicNumber, TopicPartition
from broker.protocol.errors import ErrorCode
from broker.runtime.coordination import coordinator_members as stored_groups
from broker.runtime.coordination.change_order import no_room
from broker.runtime.coordination.coordinator_offsets import CommittedOffsets
from broker.runtime.coordination.journal import Journal
from broker.runtime.coordination.limits import limits_of
from broker.runtime.coordination.machines import Hosted, resolve
from broker.runtime.coordination.memory import GroupMemory
from broker.timing.delayed import TimerHandle, Timers
from broker.topics.topic import Topic

SWEPT_A_TURN, SWEPT_A_GROUP = 2_000, 5
"""So many offsets are looked at in a turn of the loop; a group is some as well."""


class TopicNames(Protocol):
    """What is asked of the topics: which there are."""

    def by_number(self, number: TopicNumber, /) -> Topic | None: ...


@dataclass(slots=True)
class _Hosted:
    """A group, and the runtime of its machine."""

    group: Group
    machine: Hosted[Command]

    def assigned_bytes(self) -> int:
        """What its members are assigned now, beyond what each is counted with."""
        return sum(uncounted(member.assignment) for member in self.group.roster)


def _random_id() -> str:
    return str(uuid.UUID(bytes=os.urandom(16), version=4))


class Coordinator:
    """All groups of this broker. For the event loop's thread only."""

    def __init__(
        self,
        catalog: Any,
        timers: Timers,
        clock: Clock,
        settings: Any,
        topics: TopicNames,
        *,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        self.limits = limits_of(settings)
        self._journal = Journal(catalog)
        self.offsets = CommittedOffsets(
            self._journal, timers, clock, lambda added: self.memory.has_room(added)
        )
        self.memory = GroupMemory(self.limits.memory_bytes_max, self.offsets, clock)
        self._timers = timers
        self._clock = clock
        self._topics = topics
        self._new_id = new_id
        self._hosted: dict[str, _Hosted] = {}
        self._since_start = RetentionState(clock.now_ms())
        self._sweep: TimerHandle | None = None
        self._closed = False

    def load(self) -> None:
        """Read groups and committed offsets; sessions and retention begin to run.

        Blocks; at the end of a start, or members could expire before they are heard.
        """
        self.offsets.load()
        for group_id, snapshot in stored_groups.load(self._journal.catalog):
            self._host(Group.restored(group_id, snapshot)).machine.ask(Resume())
        self._sweep_later()

    async def close(self) -> None:
        """Refuse everybody who waits, to ask again; wait until changes are durable.

        Who asks from now on is sent away, too: members are to find themselves in
        their groups when the broker comes back.
        """
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for hosted in self._hosted.values():
            hosted.machine.close()
            for ticket in hosted.group.parked():
                resolve(ticket, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._hosted.clear()
        await self.offsets.flush()

    # -- members --------------------------------------------------------------

    def join(self, group_id: str, command: Join) -> "asyncio.Future[Joined | Refused]":
        """Answer or park a join; ticket and new member id are given here.

        Refused with INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, or as the group does.
        """
        ticket: asyncio.Future[Joined | Refused] = _future()
        code = self._join_refusal(group_id, command)
        if code is not ErrorCode.NONE:
            ticket.set_result(Refused(code, command.member_id))
            return ticket
        hosted = self._hosted.get(group_id) or self._open(group_id)
        name = command.instance_id or command.client_id
        command = replace(
            command, ticket=ticket, new_member_id=f"{name}-{self._new_id()}"
        )
        hosted.machine.ask(command)
        self._drop_if_never_used(hosted.group)
        return ticket

    def _join_refusal(self, group_id: str, command: Join) -> ErrorCode:
        limits = self.limits
        shortest, longest = limits.session_timeout_min_ms, limits.session_timeout_max_ms
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not shortest <= command.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if command.member_id and not self.exists(group_id):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not self.memory.has_room(self._added_by(group_id, command)):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _added_by(self, group_id: str, command: Join) -> int:
        """How much more all groups would take with a join; nothing if it is refused."""
        hosted, said = self._hosted.get(group_id), uncounted_metadata(command.protocols)
        roster = Roster() if hosted is None else hosted.group.roster
        there = command.member_id or roster.static_id(command.instance_id) or ""
        member = roster.get(there)
        if member is not None:
            return said - uncounted_metadata(member.protocols)
        if there and there not in roster.pending:
            return 0  # it was evicted, say, and has to hear UNKNOWN_MEMBER_ID
        return (GROUP_BYTES if hosted is None else 0) + JOINED_BYTES + said

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Whether the group has this member now."""
        hosted = self._hosted.get(group_id)
        return hosted is not None and member_id in hosted.group.roster

    def sync(self, group_id: str, command: Sync) -> "asyncio.Future[Synced | Refused]":
        """Answer or park a sync; the ticket is given here."""
        ticket: asyncio.Future[Synced | Refused] = _future()
        hosted = self._hosted.get(group_id)
        if hosted is None:
            ticket.set_result(Refused(self._unknown(group_id)))
            return ticket
        added = sum(uncounted(given) for _, given in command.assignments)
        if added and not self.memory.has_room(added - hosted.assigned_bytes()):
            ticket.set_result(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return ticket
        hosted.machine.ask(replace(command, ticket=ticket))
        self.memory.weigh(hosted.group)
        return ticket

    def heartbeat(self, group_id: str, command: Heartbeat) -> ErrorCode:
        """Answer a heartbeat and start the member's session anew."""
        hosted = self._hosted.get(group_id)
        if hosted is None:
            return self._unknown(group_id)
        return _code(hosted.machine.ask_now(command))

    def leave(
        self, group_id: str, leavers: Iterable[Leaver]
    ) -> "asyncio.Future[Left | Refused]":
        """Let members go: a code for each, or one if there can be no such group.

        They are gone when this returns; the future waits until it is durable that the
        group is empty, if it is.
        """
        ticket: asyncio.Future[Left | Refused] = _future()
        hosted = self._hosted.get(group_id)
        if hosted is not None:
            hosted.machine.ask(Leave(tuple(leavers), ticket))
            self.memory.weigh(hosted.group)
            return ticket
        code = self._unknown(group_id)
        unknown = code is ErrorCode.UNKNOWN_MEMBER_ID
        ticket.set_result(
            Left(tuple(code for _ in leavers)) if unknown else Refused(code)
        )
        return ticket

    def _unknown(self, group_id: str) -> ErrorCode:
        """The answer to a member of a group that is not here."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_MEMBER_ID

    # -- offsets --------------------------------------------------------------

    def admit_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        in_transaction: bool = False,
    ) -> ErrorCode:
        """Whether this member may commit now.

        A commit without a generation makes a group (a simple one); with one, an unknown
        group is GROUP_ID_NOT_FOUND, and one that only has offsets knows no members.
        """
        hosted = self._hosted.get(group_id)
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if hosted is None and generation < 0:
            return ErrorCode.NONE
        if hosted is None:
            known = self.exists(group_id)
            return (
                ErrorCode.UNKNOWN_MEMBER_ID if known else ErrorCode.GROUP_ID_NOT_FOUND
            )
        command = AdmitCommit(member_id, instance_id, generation, in_transaction)
        return _code(hosted.machine.ask_now(command))

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[Any]":
        """Make offsets durable, then visible; done when they are both.

        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE if the catalog
        failed, or there is no room for more: nothing was committed then (of more than
        ``CHANGED_A_TURN``: not all), and the client may try again.
        """
        make = partial(self._commit_if_room, group_id)
        return self.offsets.in_order(group_id, offsets, make)

    def _commit_if_room(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[Any]":
        if not self.memory.has_room(self.offsets.added_bytes(group_id, offsets)):
            return no_room()
        return self.offsets.commit(group_id, offsets)

    def commit_pending(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: Mapping[TopicPartition, Committed],
    ) -> "asyncio.Future[Any]":
        """Set offsets within a producer's open transaction, as ``commit`` does; the
        transaction's end, which makes them the group's, needs no more room."""
        make = partial(self._add_pending_if_room, group_id, producer_id)
        return self.offsets.in_order(group_id, offsets, make)

    def _add_pending_if_room(
        self,
        group_id: str,
        producer_id: ProducerId,
        offsets: Mapping[TopicPartition, Committed],
    ) -> "asyncio.Future[Any]":
        pending = self.offsets.added_pending_bytes(group_id, producer_id, offsets)
        if not self.memory.has_room(pending):
            return no_room()
        return self.offsets.commit_pending(group_id, producer_id, offsets)

    def fetch(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of a group; empty for a group nobody knows."""
        return self.offsets.of(group_id)

    def offset_delete_refusal(self, group_id: str) -> ErrorCode:
        """Whether single offsets of a group may be deleted at all.

        Of a group with members only if they are consumers: of these it is known what
        they read (``ClassicGroup.validateOffsetDelete``).
        """
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        hosted = self._hosted.get(group_id)
        if hosted is not None and not hosted.group.is_simple_or_consumers():
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def reads(self, group_id: str, topic_name: str) -> bool:
        """Whether some member reads this topic, or might."""
        hosted = self._hosted.get(group_id)
        return hosted is not None and hosted.group.reads(topic_name)

    # -- administration -------------------------------------------------------

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group: members, a past, or offsets, if only those
        of a transaction that is open."""
        return group_id in self._hosted or self.offsets.knows(group_id)

    def groups(self) -> Iterator[tuple[str, str, GroupState]]:
        """(id, protocol type, state) of every group; simple ones have no type."""
        for group_id, hosted in self._hosted.items():
            yield group_id, hosted.group.protocol_type, hosted.group.state
        for group_id in self.offsets.groups():
            if group_id not in self._hosted:
                yield group_id, "", GroupState.EMPTY

    def describe(self, group_id: str) -> GroupView | None:
        """One group, None if there is none of that id."""
        hosted = self._hosted.get(group_id)
        if hosted is not None:
            return hosted.group.describe()
        return GroupView(GroupState.EMPTY) if self.exists(group_id) else None

    def delete(self, group_id: str) -> "asyncio.Future[Any]":
        """Forget a group and its offsets; done when that is durable.

        The group is gone for members at once: who joins now, joins a new one. If it
        cannot be deleted it is there again. The caller asked ``delete_refusal`` before.
        Raises as ``commit`` does.
        """
        assert self.delete_refusal(group_id) is ErrorCode.NONE
        hosted = self._hosted.pop(group_id, None)
        self.memory.forget(group_id)
        done = self.offsets.delete_group(group_id)
        if hosted is not None:
            snapshot = hosted.group.snapshot()
            hosted.machine.ask(Delete())
            hosted.machine.close()
            done.add_done_callback(partial(self._deleted, group_id, snapshot))
        return done

    def _deleted(
        self, group_id: str, before: GroupSnapshot, done: "asyncio.Future[Any]"
    ) -> None:
        failed = not done.cancelled() and done.exception() is not None
        if failed and group_id not in self._hosted and not self._closed:
            self._host(Group.restored(group_id, before))

    def delete_refusal(self, group_id: str) -> ErrorCode:
        """Why a group cannot be deleted, NONE if it can."""
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        hosted = self._hosted.get(group_id)
        if hosted is not None and hosted.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    # -- time -----------------------------------------------------------------

    def _open(self, group_id: str) -> _Hosted:
        return self._host(Group(group_id, self._clock.now_ms()))

    def _host(self, group: Group) -> _Hosted:
        machine = Hosted(
            ClassicGroup(self.limits, group),
            stored_groups.shape_of(group.group_id),
            self._journal,
            self._timers,
            self._clock,
            partial(self._drop_if_never_used, group),
        )
        hosted = self._hosted[group.group_id] = _Hosted(group, machine)
        self.memory.weigh(group)
        return hosted

    def _drop_if_never_used(self, group: Group) -> None:
        """Who only asked for an id, or was refused, leaves nothing behind."""
        hosted = self._hosted.get(group.group_id)
        if hosted is None or hosted.group is not group:
            return
        self.memory.weigh(group)
        if group.never_used():
            hosted.machine.close()
            del self._hosted[group.group_id]
            self.memory.forget(group.group_id)

    def _sweep_later(self) -> None:
        interval_ms = self.limits.offsets_retention_check_interval_ms
        self._sweep = self._timers.after(interval_ms, self._forget_expired)

    def _forget_expired(self) -> None:
        """Expire offsets (KIP-211) and drop groups that nothing is left of."""
        self._sweep_on(self._swept())

    def _sweep_on(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self._sweep = self._timers.after(1, partial(self._sweep_on, steps))
            return
        self._sweep_later()

    def _swept(self) -> Iterator[None]:
        """Look at all offsets and groups; yields where others may have their turn."""
        looked_at = 0
        for group_id in tuple(self.offsets.groups()):
            keys = tuple(self.offsets.of(group_id))
            for first in range(0, len(keys), SWEPT_A_TURN):
                part = keys[first : first + SWEPT_A_TURN]
                self._expire(group_id, part)
                looked_at += len(part) + SWEPT_A_GROUP
                if looked_at > SWEPT_A_TURN:
                    looked_at = 0
                    yield
        for count, group_id in enumerate(tuple(self._hosted), 1):
            self._drop_if_abandoned(group_id)
            if count % (SWEPT_A_TURN // SWEPT_A_GROUP) == 0:
                yield

    def _expire(self, group_id: str, keys: Sequence[TopicPartition]) -> None:
        hosted, offsets = self._hosted.get(group_id), self.offsets.of(group_id)
        gone = expired(
            {key: offsets[key] for key in keys if key in offsets},
            hosted.group.retention_state() if hosted else self._since_start,
            self._name_of,
            now_ms=self._clock.now_ms(),
            retention_ms=self.limits.offsets_retention_ms,
        )
        self.offsets.expire(group_id, tuple(gone))

    def _name_of(self, number: TopicNumber) -> str | None:
        topic = self._topics.by_number(number)
        return None if topic is None else topic.name

    def _drop_if_abandoned(self, group_id: str) -> None:
        hosted = self._hosted.get(group_id)
        known = self.offsets.knows(group_id)
        if hosted is None or not hosted.group.abandoned() or known:
            return
        del self._hosted[group_id]
        self.memory.forget(group_id)
        hosted.machine.close()
        stored_groups.delete(self._journal, group_id)


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _code(reply: Any) -> ErrorCode:
    return reply.code if isinstance(reply, Refused) else ErrorCode.NONE
