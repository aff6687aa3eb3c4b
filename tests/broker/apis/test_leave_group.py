"""LeaveGroup, over the wire."""

import pytest

from broker.apis.leave_group import LEAVERS_A_TURN
from broker.catalog import groups as stored_groups
from broker.groups.snapshot import decode
from broker.groups.states import GroupState
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.coordinating import housed, story
from tests.support.members import a_join, stable


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)

            async def code(group_id, member_id):
                asked = LeaveGroupRequest(group_id, member_id)
                return (await house.ask(asked, version)).error_code

            assert await code("g", "x") == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code("h", member) == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code("", member) == ErrorCode.INVALID_GROUP_ID
            assert await code("g", member) == ErrorCode.NONE
            assert house.groups.describe("g").state is GroupState.EMPTY

    story(play)


@pytest.mark.parametrize("version", range(3, 6))
def test_many_leave_each_with_its_code(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            asked = LeaveGroupRequest(
                "g", members=[MemberIdentity("x"), MemberIdentity(member)]
            )
            answer = await house.ask(asked, version)
            assert answer.error_code == ErrorCode.NONE
            assert [(m.member_id, m.error_code) for m in answer.members] == [
                ("x", ErrorCode.UNKNOWN_MEMBER_ID),
                (member, ErrorCode.NONE),
            ]

    story(play)


def test_a_static_member_is_removed_by_its_instance(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await house.ask(a_join(group_instance_id="i"), 5)
            asked = LeaveGroupRequest("g", members=[MemberIdentity("", "i")])
            (member,) = (await house.ask(asked, 3)).members
            assert (member.group_instance_id, member.error_code) == ("i", 0)

    story(play)


@pytest.mark.parametrize("version", range(3, 6))
def test_nobody_is_a_member_of_a_group_nobody_knows(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            asked = LeaveGroupRequest("g", members=[MemberIdentity("x", "i")])
            answer = await house.ask(asked, version)
            assert answer.error_code == ErrorCode.NONE
            (one,) = answer.members
            assert (one.member_id, one.group_instance_id) == ("x", "i")
            assert one.error_code == ErrorCode.UNKNOWN_MEMBER_ID

            nameless = LeaveGroupRequest("", members=[MemberIdentity("x")])
            answer = await house.ask(nameless, version)
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID
            assert answer.members == []

    story(play)


def test_the_answer_leaves_when_it_is_durable_that_the_group_is_empty(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            await house.ask(LeaveGroupRequest("g", member), 0)
            (row,) = house.catalog.read(stored_groups.load).values()
            assert not decode(row).members

    story(play)


def test_thousands_leave_some_at_a_time_each_with_its_code(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            names = [str(number) for number in range(2 * LEAVERS_A_TURN)]
            names[LEAVERS_A_TURN + 3] = member
            asked = LeaveGroupRequest("g", members=list(map(MemberIdentity, names)))
            answer = await house.ask(asked, 5)
            assert [m.member_id for m in answer.members] == names
            gone = [m.member_id for m in answer.members if not m.error_code]
            assert gone == [member]
            assert house.groups.describe("g").state is GroupState.EMPTY
            unknown = await house.ask(LeaveGroupRequest("h", members=asked.members), 5)
            assert len(unknown.members) == len(names)
            nobody = await house.ask(LeaveGroupRequest("", members=[]), 5)
            assert nobody.error_code == ErrorCode.INVALID_GROUP_ID

    story(play)
