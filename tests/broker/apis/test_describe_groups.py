"""DescribeGroups, over the wire."""

import pytest

from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.support.coordinating import housed, story
from tests.support.members import FLIGHTS_READ, a_join, stable

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_groups_and_their_members(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member_id = await stable(house)
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            asked = DescribeGroupsRequest(["g", "simple", "nobody"])
            g, simple, nobody = (await house.ask(asked, version)).groups
            described = (g.group_state, g.protocol_type, g.protocol_data)
            assert described == ("Stable", "consumer", "range")
            (member,) = g.members
            assert member.member_id == member_id
            assert (member.client_id, member.client_host) == ("c", "/10.0.0.1")
            assert member.member_metadata == FLIGHTS_READ
            assert member.member_assignment == b"all"
            assert (simple.group_state, simple.protocol_type) == ("Empty", "")
            assert nobody.group_state == "Dead"
            lost = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
            assert nobody.error_code == lost
            assert bool(nobody.error_message) == (version >= 6)
            assert g.authorized_operations == NOT_ASKED

    story(play)


def test_a_group_in_a_rebalance_shows_the_parts_that_still_hold(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            parked = await house.asking(a_join(group_instance_id="i"), 5)
            (g,) = (await house.ask(DescribeGroupsRequest(["g"]), 4)).groups
            assert (g.group_state, g.protocol_data) == ("PreparingRebalance", "")
            assert [m.group_instance_id for m in g.members] == [None, "i"]
            assert {m.member_metadata for m in g.members} == {b""}
            assert [m.member_assignment for m in g.members] == [b"all", b""]
            parked.cancel()

    story(play)


@pytest.mark.parametrize("version", range(3, 7))
def test_what_may_be_done_is_told_when_asked(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            asked = DescribeGroupsRequest(["g"], include_authorized_operations=True)
            (g,) = (await house.ask(asked, version)).groups
            assert g.authorized_operations == 0b1101_0100_1000

    story(play)


def test_a_group_that_is_named_again_is_not_described_again(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            asked = DescribeGroupsRequest(["g", "nobody", "g", "nobody", "g"])
            answer = await house.ask(asked, 5)
            assert [one.group_id for one in answer.groups] == ["g", "nobody"]

    story(play)
