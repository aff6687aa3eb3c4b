"""Groups of thousands, and thousands of groups, over the real codecs and catalog."""

import asyncio

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import JoinGroupRequestProtocol
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.coordinating import House, housed, story
from tests.support.members import FLIGHTS_READ, a_join, stable

MEMBERS = 2_000
AT_ONCE = 500
DELAY_MS = 3_000
SLOW = pytest.mark.slow


async def gathered(house: House, *protocols: JoinGroupRequestProtocol) -> list[str]:
    """So many new members in one generation, each with an assignment of its own; the
    leader first."""
    fields = {"protocols": list(protocols)} if protocols else {}
    knocks = [await house.ask(a_join(**fields), 5) for _ in range(MEMBERS)]
    assert {one.error_code for one in knocks} == {ErrorCode.MEMBER_ID_REQUIRED}
    ids = [one.member_id for one in knocks]
    joins = [await house.asking(a_join(one, **fields), 5) for one in ids]
    while not joins[0].done():
        await house.pass_time(DELAY_MS)
    answers = await asyncio.gather(*joins)
    assert {(one.error_code, one.generation_id) for one in answers} == {(0, 1)}
    leader = answers[0].leader
    (told,) = [one.members for one in answers if one.members]
    assert {member.member_id for member in told} == {*ids}
    ids.sort(key=lambda one: one != leader)
    await sync(house, ids)
    return ids


async def sync(house: House, ids: list[str]) -> None:
    """The leader, who is first, assigns to each its own id."""
    given = [SyncGroupRequestAssignment(one, one.encode()) for one in ids]
    syncs = [
        await house.asking(
            SyncGroupRequest("g", 1, one, assignments=[] if at else given), 3
        )
        for at, one in reversed([*enumerate(ids)])
    ]
    answers = await asyncio.gather(*syncs)
    assert [bytes(one.assignment) for one in reversed(answers)] == [
        one.encode() for one in ids
    ]


async def heartbeats(house: House, ids: list[str]) -> set[int]:
    beats = [HeartbeatRequest("g", 1, one) for one in ids]
    return {(await house.ask(one, 3)).error_code for one in beats}


def test_two_thousand_are_one_group(tmp_path):
    async def play():
        async with housed(tmp_path, initial_rebalance_delay_ms=DELAY_MS) as house:
            ids = await gathered(house)
            assert await heartbeats(house, ids) == {0}
            (view,) = (await house.ask(DescribeGroupsRequest(["g"]), 5)).groups
            assert (view.group_state, len(view.members)) == ("Stable", MEMBERS)
            leavers = [MemberIdentity(one) for one in ids[1:1001]]
            left = await house.ask(LeaveGroupRequest("g", members=leavers), 3)
            assert {one.error_code for one in left.members} == {0}
            stay = [ids[0], *ids[1001:]]
            assert await heartbeats(house, stay) == {ErrorCode.REBALANCE_IN_PROGRESS}
            again = await asyncio.gather(
                *[await house.asking(a_join(one), 5) for one in stay]
            )
            assert {one.generation_id for one in again} == {2}

    story(play)


def test_two_thousand_go_on_after_a_restart(tmp_path):
    async def play():
        async with housed(tmp_path, initial_rebalance_delay_ms=DELAY_MS) as house:
            ids = await gathered(house)
        async with housed(tmp_path) as house:
            assert await heartbeats(house, ids) == {0}

    story(play)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=SLOW)])
def test_thousands_of_groups_are_listed_and_go_on_after_a_restart(tmp_path, count):
    names = [f"group-{n}" for n in range(count)]
    ids: dict[str, str] = {}

    async def begin(house: House, name: str) -> None:
        ids[name] = await stable(house, name)

    async def look(house: House) -> None:
        listed = await house.ask(ListGroupsRequest(["stable"], ["classic"]), 5)
        assert {one.group_id for one in listed.groups} == {*names}
        assert {one.protocol_type for one in listed.groups} == {"consumer"}
        empty = await house.ask(ListGroupsRequest(["Empty"], []), 5)
        assert empty.groups == []
        described = await house.ask(DescribeGroupsRequest(names), 5)
        assert {one.group_state for one in described.groups} == {"Stable"}
        for name in names[:: count // 100]:
            beat = HeartbeatRequest(name, 1, ids[name])
            assert (await house.ask(beat, 3)).error_code == 0

    async def play():
        async with housed(tmp_path) as house:
            for at in range(0, count, AT_ONCE):
                some = names[at : at + AT_ONCE]
                await asyncio.gather(*(begin(house, name) for name in some))
            await look(house)
        async with housed(tmp_path) as house:
            await look(house)

    story(play)


@pytest.mark.parametrize("kind", ["connect", "my own"])
def test_any_protocol_type_is_the_groups(tmp_path, kind):
    """What its members say is theirs, and comes back byte for byte."""
    said = bytes(range(256))
    fields = {
        "protocol_type": kind,
        "protocols": [JoinGroupRequestProtocol("sessioned", said)],
    }

    async def play():
        async with housed(tmp_path) as house:
            await stable(house, **fields)
            for other in ("consumer", ""):
                refused = await house.ask(a_join(protocol_type=other), 3)
                assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            (view,) = (await house.ask(DescribeGroupsRequest(["g"]), 5)).groups
            assert (view.protocol_type, view.protocol_data) == (kind, "sessioned")
            (member,) = view.members
            assert bytes(member.member_metadata) == said
            (listed,) = (await house.ask(ListGroupsRequest(), 5)).groups
            assert listed.protocol_type == kind
            follower = await house.asking(a_join(**fields), 3)
            leader = await house.ask(a_join(member.member_id, **fields), 3)
            assert (await follower).protocol_name == "sessioned"
            assert [bytes(one.metadata) for one in leader.members] == [said, said]

    story(play)


def test_cooperative_members_keep_what_they_own_while_others_join(tmp_path):
    """KIP-429: the leader hears what each owns; commits and heartbeats of the
    generation go on while the next one is prepared."""
    owned = FLIGHTS_READ + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01\x00\x07flights"
    owned = b"\x00\x01" + owned[2:] + b"\x00\x00\x00\x01\x00\x00\x00\x00"

    def cooperative(said: bytes) -> dict:
        return {"protocols": [JoinGroupRequestProtocol("cooperative-sticky", said)]}

    async def play():
        async with housed(tmp_path) as house:
            first = await stable(house, **cooperative(FLIGHTS_READ))
            joins = await house.asking(a_join(**cooperative(FLIGHTS_READ)), 3)
            beat = HeartbeatRequest("g", 1, first)
            answer = await house.ask(beat, 3)
            assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
            (view,) = (await house.ask(DescribeGroupsRequest(["g"]), 5)).groups
            parts = {one.member_id: one.member_assignment for one in view.members}
            assert bytes(parts[first]) == b"all"
            again = await house.ask(a_join(first, **cooperative(owned)), 3)
            follower = await joins
            said = {one.member_id: bytes(one.metadata) for one in again.members}
            assert said == {first: owned, follower.member_id: FLIGHTS_READ}

    story(play)
