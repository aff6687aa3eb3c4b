"""The group coordinator: where pure groups meet futures, timers and the clock.

A group decides (``broker/groups``); this keeps all groups, gives each command a future
as its ticket, sets the timers that the group wishes for, and resolves the futures that
it answers. So a parked JoinGroup is an unresolved future, nothing more, and a handler
only awaits it. Everything runs on the event loop, one step at a time; nothing here
waits, except for offsets and complete generations to be durable
(``coordinator_writes.py``).

A broker that comes back goes on with the generations that were complete: members' heart
beats and commits are right, and their sessions start anew. Whoever was in the middle of
a rebalance asks again.
"""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from broker.clock import Clock
from broker.groups.classic import ClassicGroup, GroupView, Leaver
from broker.groups.commands import (
    Effects,
    Heartbeat,
    Join,
    Joined,
    Refused,
    Sync,
    Synced,
    TimerKey,
)
from broker.groups.limits import GroupLimits
from broker.groups.offsets import Committed, Standing, TopicPartition, expired
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode
from broker.runtime.coordinator_members import StoredGroups
from broker.runtime.coordinator_offsets import CommittedOffsets
from broker.runtime.coordinator_writes import GroupWrites
from broker.runtime.ports import Timer, Timers
from broker.topics.topic import Topic


class TopicNames(Protocol):
    """What is asked of the topics: which there are."""

    def all(self) -> Iterator[Topic]: ...


@dataclass(slots=True)
class _Hosted:
    """A group, those of its timers that run, and its last store under way."""

    group: ClassicGroup
    timers: dict[TimerKey, Timer] = field(default_factory=dict)
    storing: "asyncio.Future[None] | None" = None


def limits_of(settings: Any) -> GroupLimits:
    """The group limits that the broker's settings (``settings.groups``) ask for."""
    groups = settings.groups
    return GroupLimits(
        initial_rebalance_delay_ms=groups.initial_rebalance_delay_ms,
        session_timeout_min_ms=groups.min_session_timeout_ms,
        session_timeout_max_ms=groups.max_session_timeout_ms,
        members_max=groups.max_size,
        offset_metadata_max=groups.offset_metadata_max_bytes,
        offsets_retention_ms=groups.offsets_retention_ms,
        offsets_retention_check_interval_ms=groups.offsets_retention_check_ms,
    )


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
        writes = GroupWrites(catalog)
        self.offsets = CommittedOffsets(writes)
        self._stored_groups = StoredGroups(writes)
        self._timers = timers
        self._clock = clock
        self._topics = topics
        self._new_id = new_id
        self._hosted: dict[str, _Hosted] = {}
        self._started_ms = clock.now_ms()
        self._sweep: Timer | None = None
        self._closed = False

    def load(self) -> None:
        """Read groups and committed offsets; sessions and retention begin to run.

        Blocks; at the end of a start, or members could expire before they are heard.
        """
        self.offsets.load()
        now_ms = self._clock.now_ms()
        for group_id, snapshot in self._stored_groups.load():
            group, effects = ClassicGroup.restored(
                group_id, self.limits, snapshot, now_ms
            )
            hosted = self._hosted[group_id] = _Hosted(group)
            self._perform(hosted, effects)
        self._sweep_later()

    async def close(self) -> None:
        """Send everybody who waits away, to ask again, and let changes settle.

        Who asks from now on is sent away, too: members are to find themselves in
        their groups when the broker comes back.
        """
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for hosted in self._hosted.values():
            for timer in hosted.timers.values():
                timer.cancel()
            for ticket in hosted.group.parked():
                _resolve(ticket, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        self._hosted.clear()
        await self.offsets.settled()

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
        self._perform(hosted, hosted.group.join(command, self._clock.now_ms()))
        self._drop_if_untouched(hosted)
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
        if command.member_id and group_id not in self._hosted:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def sync(self, group_id: str, command: Sync) -> "asyncio.Future[Synced | Refused]":
        """Answer or park a sync; the ticket is given here."""
        ticket: asyncio.Future[Synced | Refused] = _future()
        hosted = self._hosted.get(group_id)
        if hosted is None:
            ticket.set_result(Refused(self._unknown(group_id)))
            return ticket
        command = replace(command, ticket=ticket)
        self._perform(hosted, hosted.group.sync(command, self._clock.now_ms()))
        return ticket

    def heartbeat(self, group_id: str, command: Heartbeat) -> ErrorCode:
        """Hear a sign of life."""
        hosted = self._hosted.get(group_id)
        if hosted is None:
            return self._unknown(group_id)
        effects = hosted.group.heartbeat(command, self._clock.now_ms())
        ((_, reply),) = effects.replies
        effects.replies.clear()
        self._perform(hosted, effects)
        return reply.code if isinstance(reply, Refused) else ErrorCode.NONE

    def leave(
        self, group_id: str, leavers: Iterable[Leaver]
    ) -> ErrorCode | list[ErrorCode]:
        """Let members go: a code for each, or one if there is no such group."""
        hosted = self._hosted.get(group_id)
        if hosted is None:
            return self._unknown(group_id)
        codes, effects = hosted.group.leave(leavers, self._clock.now_ms())
        self._perform(hosted, effects)
        return codes

    async def settled(self, group_id: str) -> None:
        """Wait until the group is stored as it is, or could not be."""
        hosted = self._hosted.get(group_id)
        if hosted is not None and hosted.storing is not None:
            await asyncio.wait([hosted.storing])

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
    ) -> ErrorCode:
        """Whether this member may commit now. A group nobody is in is an empty one."""
        hosted = self._hosted.get(group_id)
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if hosted is None:
            simple = generation < 0
            return ErrorCode.NONE if simple else ErrorCode.UNKNOWN_MEMBER_ID
        now_ms = self._clock.now_ms()
        code, effects = hosted.group.commit(member_id, instance_id, generation, now_ms)
        self._perform(hosted, effects)
        return code

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> "asyncio.Future[None]":
        """Make offsets durable, then visible; done when they are both.

        Raises (from the future) KafkaError COORDINATOR_NOT_AVAILABLE if the catalog
        failed: nothing was committed then, and the client may try again.
        """
        return self.offsets.commit(group_id, offsets)

    def fetch(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """The durable offsets of a group; empty for a group nobody knows."""
        return self.offsets.of(group_id)

    def offset_delete_refusal(self, group_id: str) -> ErrorCode:
        """Whether single offsets of a group may be deleted at all.

        Of a group with members only if they are consumers: of these it is known what
        they read (``ClassicGroup.validateOffsetDelete``).
        """
        if self._closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.exists(group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        hosted = self._hosted.get(group_id)
        if hosted is not None and not hosted.group.tells_what_it_reads():
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def reads(self, group_id: str, topic_name: str) -> bool:
        """Whether some member reads this topic, or might."""
        hosted = self._hosted.get(group_id)
        return hosted is not None and hosted.group.reads(topic_name)

    # -- administration -------------------------------------------------------

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group: members, a past, or offsets."""
        return group_id in self._hosted or bool(self.offsets.of(group_id))

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

    def delete(self, group_id: str) -> "asyncio.Future[None]":
        """Forget a group and its offsets; done when that is durable.

        The group is gone for members at once: who joins now, joins a new one. The
        caller asked ``delete_refusal`` before. Raises as ``commit`` does.
        """
        assert self.delete_refusal(group_id) is ErrorCode.NONE
        hosted = self._hosted.pop(group_id, None)
        if hosted is not None:
            self._perform(hosted, hosted.group.bury())
        return self.offsets.delete(group_id)

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
        group = ClassicGroup(group_id, self.limits, self._clock.now_ms())
        hosted = self._hosted[group_id] = _Hosted(group)
        return hosted

    def _perform(self, hosted: _Hosted, effects: Effects) -> None:
        """Carry out what a group wished for."""
        for key, delay_ms in effects.timers.items():
            running = hosted.timers.pop(key, None)
            if running is not None:
                running.cancel()
            if delay_ms is not None:
                fire = partial(self._fire, hosted, key)
                hosted.timers[key] = self._timers.after(delay_ms, fire)
        for ticket, reply in effects.replies:
            _resolve(ticket, reply)
        if effects.store is not None:
            serial, snapshot = effects.store
            group_id = hosted.group.group_id
            hosted.storing = self._stored_groups.store(group_id, snapshot)
            done = partial(self._stored, hosted, serial)
            hosted.storing.add_done_callback(done)

    def _stored(
        self, hosted: _Hosted, serial: int, future: "asyncio.Future[None]"
    ) -> None:
        failed = future.exception() is not None
        if hosted.storing is future:
            hosted.storing = None
        if self._hosted.get(hosted.group.group_id) is not hosted:
            return  # deleted, or we are closed: nobody waits
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
        now_ms = self._clock.now_ms()
        self._perform(hosted, hosted.group.stored(serial, code, now_ms))

    def _fire(self, hosted: _Hosted, key: TimerKey) -> None:
        del hosted.timers[key]
        self._perform(hosted, hosted.group.fire(key, self._clock.now_ms()))
        self._drop_if_untouched(hosted)

    def _drop_if_untouched(self, hosted: _Hosted) -> None:
        """Whoever only knocked, or was refused, leaves nothing behind."""
        group_id = hosted.group.group_id
        if hosted.group.untouched() and self._hosted.get(group_id) is hosted:
            del self._hosted[group_id]

    def _sweep_later(self) -> None:
        interval_ms = self.limits.offsets_retention_check_interval_ms
        self._sweep = self._timers.after(interval_ms, self._forget_expired)

    def _forget_expired(self) -> None:
        """Expire offsets (KIP-211) and drop groups that nothing is left of."""
        names = {topic.number: topic.name for topic in self._topics.all()}
        now_ms = self._clock.now_ms()
        for group_id in tuple(self.offsets.groups()):
            hosted = self._hosted.get(group_id)
            since_start = Standing(self._started_ms)
            standing = hosted.group.standing() if hosted else since_start
            retention_ms = self.limits.offsets_retention_ms
            offsets = self.offsets.of(group_id)
            gone = list(
                expired(
                    offsets, standing, names, now_ms=now_ms, retention_ms=retention_ms
                )
            )
            if gone:
                self.offsets.expire(group_id, gone)
        self._drop_empty()
        self._sweep_later()

    def _drop_empty(self) -> None:
        for group_id, hosted in tuple(self._hosted.items()):
            if hosted.group.abandoned() and not self.offsets.of(group_id):
                del self._hosted[group_id]
                gone = self._stored_groups.delete(group_id)
                gone.add_done_callback(asyncio.Future.exception)


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _resolve(ticket: Any, reply: Any) -> None:
    assert isinstance(ticket, asyncio.Future)
    if not ticket.done():  # a connection that closed has cancelled it
        ticket.set_result(reply)
