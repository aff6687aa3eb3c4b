"""Members of a group: they join, commit what is theirs, fall asleep, vanish and wake.

A member that slept through a rebalance goes on as if nothing had happened, and must be
refused. Each commit is of a number above all that were asked for, whoever asked: one
that takes effect too late brings the group back, which the next look shows.
"""

import contextlib

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.offset_commit import OffsetCommitRequest
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.simulation.actors import COMMIT_VERSION, commit_request, look_at_offset
from tests.simulation.clients import Client, Town
from tests.simulation.groups import GroupModel
from tests.simulation.model import TopicModel
from tests.simulation.network import Disconnected

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 5, 3, 3, 4
SESSION_MS, REBALANCE_MS = 6_000, 400

Place = tuple[TopicModel, int]


class Member(Client):
    """One member of a group, in ever new lives."""

    def __init__(self, town: Town, name: str, group: GroupModel) -> None:
        super().__init__(town, name)
        self.group = group
        self.member_id = ""
        self.generation: int | None = None
        """None: it is to join."""
        self.told: list[int] = []
        """The generations that it was told of, as who it is."""
        self.places: list[Place] = []
        """Those that it was given."""

    async def work(self) -> None:
        if self.generation is None:
            await self._join()
            return
        what = self.chance.random()
        if what < 0.5:
            await self._commit()
        elif what < 0.7:
            await self._beat()
        elif what < 0.8:
            await self._look()
        elif what < 0.92:
            await self.pause(300, 1_500)
        else:
            await self._go(leaves=what < 0.96)

    async def finish(self) -> None:
        """Be given a place once more: nobody that is gone keeps a group from that."""
        while self.generation is None:
            with contextlib.suppress(Disconnected):
                await self._join()
            await self.pause(10, 200)

    # its group

    async def _join(self) -> None:
        asked = JoinGroupRequest(
            self.group.name, SESSION_MS, REBALANCE_MS, self.member_id,
            protocol_type="sim", protocols=[JoinGroupRequestProtocol("sim", b"")],
        )  # fmt: skip
        answer = await self.ask(asked, JOIN_VERSION)
        self.tell(f"joins as {self.member_id!r}: {answer.error_code}")
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code:
            await self._refused(answer.error_code)
        else:
            self.member_id = answer.member_id
            await self._sync(answer)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        """Hear what is its part, which the leader has said, of all that there is."""
        generation, newest = joined.generation_id, self.group.newest
        parts: dict[str, list[str]] = {one.member_id: [] for one in joined.members}
        places = self._all_places() if parts else []
        for number in range(len(places)):
            parts[sorted(parts)[number % len(parts)]].append(str(number))
        assigned = [
            SyncGroupRequestAssignment(member_id, ",".join(numbers).encode())
            for member_id, numbers in parts.items()
        ]
        asked = SyncGroupRequest(
            self.group.name, generation, self.member_id, assignments=assigned
        )
        answer = await self.ask(asked, SYNC_VERSION)
        given = bytes(answer.assignment).decode()
        self.tell(f"syncs {generation}: {answer.error_code} {given!r}")
        if answer.error_code:
            await self._refused(answer.error_code)
            return
        all_places = self._all_places()
        self.places = [all_places[int(number)] for number in given.split(",") if given]
        self.generation = generation
        self.told.append(generation)
        self.group.check(newest, generation, f"{self.name}: SyncGroup")
        names = [f"{topic.name}-{index}" for topic, index in self.places]
        self.group.synced(generation, names, self.member_id)
        await self._look()

    async def _beat(self) -> None:
        assert self.generation is not None
        newest = self.group.newest
        asked = HeartbeatRequest(self.group.name, self.generation, self.member_id)
        code = (await self.ask(asked, HEARTBEAT_VERSION)).error_code
        self._heard("Heartbeat", newest, self.generation, code)
        if code:
            await self._refused(code)

    async def _go(self, *, leaves: bool) -> None:
        """Leave, or vanish without a word; come again as somebody else."""
        member_id, self.member_id = self.member_id, ""
        self.generation, self.places, self.told = None, [], []
        self.tell("leaves" if leaves else "vanishes")
        if leaves:
            leaver = MemberIdentity(member_id)
            asked = LeaveGroupRequest(self.group.name, members=[leaver])
            await self.ask(asked, LEAVE_VERSION)
        else:
            self.disconnect()

    async def _refused(self, code: int) -> None:
        """Join again; as somebody else if it is not known."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.told = "", []
        self.generation = None
        await self.pause(0, 100)

    def _heard(self, how: str, newest: int, generation: int, code: int) -> None:
        self.tell(f"{how} in {generation}: {code}")
        if not code:
            self.group.check(newest, generation, f"{self.name}: {how}")

    def _all_places(self) -> list[Place]:
        return [(t, i) for t in self.town.topics for i in range(len(t.partitions))]

    # its offsets

    async def _commit(self) -> None:
        """Commit what is its own; or was, to a part of it that missed a rebalance. At
        times it joins again and never hears the answer."""
        if not self.places or self.generation is None:
            await self._beat()
            return
        topic, index = self.chance.choice(self.places)
        known = self.model.committed(self.group.name, topic.name, index)
        offset, newest = known.asked + 1, self.group.newest
        known.ask(offset)
        is_late = self.chance.random() < 0.2
        generation = self.chance.choice(self.told) if is_late else self.generation
        asked = commit_request(self.group.name, topic.name, index, offset)
        asked.member_id = self.member_id
        asked.generation_id_or_member_epoch = generation
        if self.chance.random() < 0.2:
            await self._commit_and_join(asked)
            return
        answer = await self.ask(asked, COMMIT_VERSION)
        code = answer.topics[0].partitions[0].error_code
        how = f"commit {offset} of {topic.name}-{index}"
        self._heard(how, newest, generation, code)
        if not code:
            known.acknowledge(offset)
        elif generation == self.generation:
            await self._refused(code)

    async def _commit_and_join(self, asked: OffsetCommitRequest) -> None:
        """The commit is on another connection, of which nobody reads the answer."""
        link = await self.town.network.connect(f"{self.name}, commits")
        unheard = link.ask(asked, COMMIT_VERSION)
        unheard.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            self.generation = None
            await self._join()
        finally:
            link.close()

    async def _look(self) -> None:
        """Where its partitions stand: what the next who reads would begin with."""
        for topic, index in self.places:
            await look_at_offset(self, self.group.name, topic.name, index)
