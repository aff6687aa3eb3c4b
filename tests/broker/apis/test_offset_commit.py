"""OffsetCommit, over the wire; what was acknowledged survives."""

import asyncio
import struct

import pytest

from broker.apis.offset_commit import offset_commit
from broker.dispatch.turns import ITEMS_A_TURN, PARTS_A_TURN
from broker.groups.offsets import NO_EXPIRY, Committed
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import request_decoder
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.runtime.coordination.coordinator_offsets import CHANGED_A_TURN
from broker.runtime.process.long_work import PIECES_A_TURN, pieces
from tests.support.coordinating import FLIGHTS, House, housed, story
from tests.support.members import a_join, joined, stable
from tests.support.rig import start

VERSIONS = range(11)
NOWHERE = b"\x09" * 16


def a_commit(*partitions, topic=FLIGHTS, **fields) -> OffsetCommitRequest:
    asked = OffsetCommitRequestTopic(topic.name, topic.id, list(partitions))
    return OffsetCommitRequest("g", topics=[asked], **fields)


def at(index: int, offset: int = 5, **fields) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, offset, **fields)


async def codes(house: House, request: OffsetCommitRequest, version: int) -> list:
    answer = await house.ask(request, version)
    return [p.error_code for topic in answer.topics for p in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_simple_commit_is_durable_when_it_is_answered(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_commit(at(0, 5, committed_metadata="m"), at(2, 7))
            answer = await house.ask(asked, version)
            (topic,) = answer.topics
            if version >= 10:
                assert topic.topic_id == FLIGHTS.id
            else:
                assert topic.name == "flights"
            assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
                (0, 0),
                (2, 0),
            ]
            now_ms = house.clock.now_ms()
        async with housed(tmp_path) as house:
            assert house.groups.fetch("g") == {
                (1, 0): Committed(5, -1, "m", now_ms),
                (1, 2): Committed(7, -1, "", now_ms),
            }

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions_fail_alone(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_commit(at(0), at(3), at(-1))
            stranger = OffsetCommitRequestTopic("nope", NOWHERE, [at(0)])
            asked.topics.append(stranger)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            by_id = ErrorCode.UNKNOWN_TOPIC_ID
            last = by_id if version >= 10 else unknown
            assert await codes(house, asked, version) == [0, unknown, unknown, last]
            assert list(house.groups.fetch("g")) == [(1, 0)]

    story(play)


def test_metadata_may_be_null_and_not_too_long(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_commit(
                at(0, committed_metadata=None),
                at(1, committed_metadata="x" * 4_096),
                at(2, committed_metadata="x" * 4_097),
            )
            too_long = ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert await codes(house, asked, 7) == [0, 0, too_long]
            assert house.groups.fetch("g")[1, 0].metadata == ""

    story(play)


def test_the_leader_epoch_is_kept(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await house.ask(a_commit(at(0, committed_leader_epoch=3)), 6)
            assert house.groups.fetch("g")[1, 0].leader_epoch == 3

    story(play)


def test_version_1_has_a_timestamp_and_versions_2_to_4_a_retention(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await house.ask(a_commit(at(0, commit_timestamp=77)), 1)
            assert house.groups.fetch("g")[1, 0].committed_ms == 77
            now_ms = house.clock.now_ms()
            for version in (2, 3, 4):
                asked = a_commit(at(version - 2), retention_time_ms=1_000)
                await house.ask(asked, version)
                committed = house.groups.fetch("g")[1, version - 2]
                assert committed.expires_ms == now_ms + 1_000

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_version_1_tells_a_time_and_only_versions_2_to_4_how_long(
    tmp_path, version
):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_commit(at(0, commit_timestamp=77), retention_time_ms=1_000)
            assert await codes(house, asked, version) == [0]
            found, now_ms = house.groups.fetch("g")[1, 0], house.clock.now_ms()
            assert found.committed_ms == (77 if version == 1 else now_ms)
            retained = now_ms + 1_000 if version in (2, 3, 4) else NO_EXPIRY
            assert found.expires_ms == retained

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_version_0_is_that_of_nobody_though_a_member_sends_it(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            mine = {"generation_id_or_member_epoch": 1, "member_id": member}
            stranger = ErrorCode.UNKNOWN_MEMBER_ID
            expected = ErrorCode.NONE if version else stranger
            assert await codes(house, a_commit(at(0), **mine), version) == [expected]
            assert bool(house.groups.fetch("g")) == bool(version)

    story(play)


def test_the_first_three_versions_are_read_as_their_clients_wrote_them():
    offset, time = struct.pack(">q", 5), struct.pack(">q", 77)
    of_one = b"\0\0\0\1"
    begin = of_one + b"\0\7flights" + of_one + b"\0\0\0\2" + offset
    member = b"\0\0\0\3" + b"\0\1m"
    for version, body in enumerate(
        (
            b"\0\1g" + begin + b"\0\1x",
            b"\0\1g" + member + begin + time + b"\0\1x",
            b"\0\1g" + member + time + begin + b"\0\1x",
        )
    ):
        key = int(ApiKey.OFFSET_COMMIT)
        read = request_decoder(key, version)(memoryview(body), 0)
        known = (3, "m") if version else (-1, "")
        assert (read.generation_id_or_member_epoch, read.member_id) == known
        assert read.retention_time_ms == (77 if version == 2 else -1)
        [topic] = read.topics
        [partition] = topic.partitions
        assert (topic.name, partition.partition_index) == ("flights", 2)
        assert partition.committed_offset == 5
        assert partition.commit_timestamp == (77 if version == 1 else -1)
        assert partition.committed_metadata == "x"


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_any_retention_can_be_kept(tmp_path, retention_ms):
    async def play():
        async with housed(tmp_path) as house:
            asked = a_commit(at(0), retention_time_ms=retention_ms)
            answer = await house.ask(asked, 2)
            assert answer.topics[0].partitions[0].error_code == 0
            expires_ms = house.groups.fetch("g")[1, 0].expires_ms
            assert expires_ms == min(house.clock.now_ms() + retention_ms, 2**63 - 1)

    story(play)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_members_commit_in_their_generation_and_nobody_else(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            fields = "generation_id_or_member_epoch", "member_id"

            async def code(generation, member_id):
                named = dict(zip(fields, (generation, member_id), strict=True))
                (only,) = await codes(house, a_commit(at(0), **named), version)
                return only

            assert await code(1, member) == ErrorCode.NONE
            assert await code(2, member) == ErrorCode.ILLEGAL_GENERATION
            assert await code(1, "x") == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code(-1, "") == ErrorCode.UNKNOWN_MEMBER_ID
            parked = await house.asking(a_join(), 3)
            assert await code(1, member) == ErrorCode.NONE
            await house.ask(a_join(member), 3)
            await parked
            assert await code(2, member) == ErrorCode.REBALANCE_IN_PROGRESS

    story(play)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_generation_of_a_group_nobody_knows_is_illegal(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            named = {"generation_id_or_member_epoch": 0, "member_id": "x"}
            illegal = ErrorCode.ILLEGAL_GENERATION
            unknown = illegal if version < 9 else ErrorCode.GROUP_ID_NOT_FOUND
            assert await codes(house, a_commit(at(0), **named), version) == [unknown]
            assert await codes(house, a_commit(at(0)), version) == [ErrorCode.NONE]
            lost = ErrorCode.UNKNOWN_MEMBER_ID
            assert await codes(house, a_commit(at(0), **named), version) == [lost]

    story(play)


def test_a_refused_commit_changes_nothing(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await joined(house)
            refused = ErrorCode.UNKNOWN_MEMBER_ID
            assert await codes(house, a_commit(at(0)), 7) == [refused]
            assert not house.groups.fetch("g")

    story(play)


@pytest.mark.parametrize("version", [7, 9])
def test_who_is_fenced_while_a_large_commit_is_looked_at_commits_nothing(
    tmp_path, version
):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            named = {"generation_id_or_member_epoch": 1, "member_id": member}
            beyond = [at(9)] * ITEMS_A_TURN
            asked = a_commit(at(0), *beyond, at(1), **named)
            large = asyncio.ensure_future(codes(house, asked, version))
            await asyncio.sleep(0)  # it has begun
            left = [MemberIdentity(member)]
            await house.ask(LeaveGroupRequest("g", "", left), 4)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused = ErrorCode.UNKNOWN_MEMBER_ID
            assert await large == [refused, *[unknown] * len(beyond), refused]
            assert not house.groups.fetch("g")

    story(play)


def test_who_is_fenced_while_a_commit_waits_to_begin_commits_nothing(tmp_path):
    asked = [at(number) for number in range(PARTS_A_TURN + 1)]

    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            named = {"generation_id_or_member_epoch": 1, "member_id": member}

            async def in_a_full_turn() -> list:
                for _ in range(PIECES_A_TURN):
                    pieces().note_begun()
                return await codes(house, a_commit(*asked, **named), 7)

            waits = asyncio.ensure_future(in_a_full_turn())
            await asyncio.sleep(0)
            assert not waits.done()
            left = [MemberIdentity(member)]
            await house.ask(LeaveGroupRequest("g", "", left), 4)
            assert (await waits)[0] == ErrorCode.UNKNOWN_MEMBER_ID
            assert not house.groups.fetch("g")

    story(play)


def test_a_small_commit_is_made_although_the_turn_is_full_and_its_member_hangs_up(
    tmp_path,
):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            named = {"generation_id_or_member_epoch": 1, "member_id": member}
            for _ in range(PIECES_A_TURN):
                pieces().note_begun()
            made = start(offset_commit, a_commit(at(0), **named), house.broker, 7)
            assert not hasattr(made, "abandon")
            await made
            assert house.groups.fetch("g")

    story(play)


def test_a_catalog_that_fails_is_told_per_partition(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            house.catalog.close()
            unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            asked = a_commit(at(0), at(9))
            assert await codes(house, asked, 7) == [unavailable, unknown]

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_would_wait_where_there_is_no_room_is_told_to_come_again(tmp_path, version):
    many = {FLIGHTS.key(n): Committed(1) for n in range(CHANGED_A_TURN + 1)}

    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("g", many)
        async with housed(tmp_path, memory_bytes_max=1) as house:
            full = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            done = house.groups.commit("g", many)
            assert await codes(house, a_commit(at(0)), version) == full
            await done
            assert await codes(house, a_commit(at(0)), version) == [0]

    story(play)
