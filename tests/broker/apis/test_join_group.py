"""JoinGroup, over the wire, in every version."""

import asyncio

import pytest

from broker.apis.join_group import PROTOCOLS_MAX
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponseMember,
)
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.coordinating import House, housed, story

VERSIONS = range(10)


def a_join(member_id: str = "", **fields) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", b"meta")],
        }
        | fields
    )


async def joined(house: House, version: int):
    """A first join of a group, in two steps where the version asks for that."""
    answer = await house.ask(a_join(), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = await house.ask(a_join(answer.member_id), version)
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_member_leads_and_is_told_of_the_members(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            answer = await joined(house, version)
            assert answer.error_code == ErrorCode.NONE
            assert answer.generation_id == 1
            assert answer.protocol_name == "range"
            assert answer.leader == answer.member_id == "c-1"
            assert answer.members == [JoinGroupResponseMember("c-1", None, b"meta")]
            if version >= 7:
                assert answer.protocol_type == "consumer"

    story(play)


@pytest.mark.parametrize("version", [5, 9])
def test_followers_are_told_of_nobody_and_all_wait_for_all(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            leader = (await joined(house, version)).member_id
            pending = await house.ask(a_join(), version)
            parked = await house.asking(a_join(pending.member_id), version)
            assert not parked.done()
            again, follower = await asyncio.gather(
                house.ask(a_join(leader), version), parked
            )
            assert len(again.members) == 2
            assert (follower.members, follower.leader) == ([], leader)
            assert follower.generation_id == again.generation_id == 2

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_has_the_shape_of_its_version(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(a_join("nobody"), version)
            assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert (answer.generation_id, answer.member_id) == (-1, "nobody")
            assert answer.protocol_name == (None if version >= 7 else "")

    story(play)


def test_in_version_0_the_session_timeout_bounds_the_rebalance(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await joined(house, 0)
            second = await house.asking(a_join(session_timeout_ms=20_000), 0)
            await house.pass_time(9_999)
            assert not second.done()
            # The first never rejoins: its session of 10 s ends, and the wait with it.
            await house.pass_time(1)
            assert (await second).generation_id == 2

    story(play)


def test_a_static_leader_skips_the_assignment_from_version_9_on(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            static = a_join(group_instance_id="i")
            first = await house.ask(static, 9)
            assert (first.member_id, first.skip_assignment) == ("i-1", False)
            sync = await _synced(house, first)
            assert sync == b"all"
            second = await house.ask(static, 9)
            assert (second.leader, second.skip_assignment) == ("i-2", True)
            assert second.generation_id == 1
            older = await house.ask(static, 8)
            assert (older.member_id, older.leader) == ("i-3", "i-2")

    story(play)


async def _synced(house: House, first) -> bytes:
    mine = [SyncGroupRequestAssignment(first.member_id, b"all")]
    asked = SyncGroupRequest("g", 1, first.member_id, "i", None, None, mine)
    return (await house.ask(asked, 4)).assignment


def test_what_administrators_see_of_a_client_comes_with_its_join(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await joined(house, 5)
            (member,) = house.groups.describe("g").members
            assert (member.client_id, member.client_host) == ("c", "/10.0.0.1")

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_says_to_know_thousands_of_assignors_is_refused(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            nameless = [JoinGroupRequestProtocol("", b"")] * (PROTOCOLS_MAX + 1)
            answer = await house.ask(a_join(protocols=nameless), version)
            assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert answer.protocol_name == (None if version >= 7 else "")
            assert house.groups.describe("g") is None
            fewer = a_join(protocols=nameless[1:])
            known = ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE
            assert (await house.ask(fewer, version)).error_code == known

    story(play)
