"""SyncGroup, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.coordinating import housed, story
from tests.support.members import a_join, joined, stable

VERSIONS = range(6)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_gives_and_gets_its_part(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            leader = await joined(house)
            mine = [SyncGroupRequestAssignment(leader, b"all")]
            asked = SyncGroupRequest(
                "g", 1, leader, None, "consumer", "range", assignments=mine
            )
            answer = await house.ask(asked, version)
            assert (answer.error_code, answer.assignment) == (0, b"all")
            if version >= 5:
                named = (answer.protocol_type, answer.protocol_name)
                assert named == ("consumer", "range")

    story(play)


def test_a_follower_waits_for_the_leader_and_may_get_nothing(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            leader = await stable(house)
            joining = await house.asking(a_join(), 3)
            await house.ask(a_join(leader), 3)
            follower = (await joining).member_id
            parked = await house.asking(SyncGroupRequest("g", 2, follower), 3)
            assert not parked.done()
            mine = [SyncGroupRequestAssignment(leader, b"x")]
            led = SyncGroupRequest("g", 2, leader, assignments=mine)
            assert (await house.ask(led, 3)).assignment == b"x"
            answer = await parked
            assert (answer.error_code, answer.assignment) == (0, b"")

    story(play)


@pytest.mark.parametrize("version", VERSIONS)
def test_refusals_in_every_version(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            for asked, code in (
                (SyncGroupRequest("g", 9, member), ErrorCode.ILLEGAL_GENERATION),
                (SyncGroupRequest("g", 1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
                (SyncGroupRequest("h", 1, member), ErrorCode.UNKNOWN_MEMBER_ID),
                (SyncGroupRequest("", 1, member), ErrorCode.INVALID_GROUP_ID),
            ):
                asked.protocol_type, asked.protocol_name = "consumer", "range"
                answer = await house.ask(asked, version)
                assert (answer.error_code, answer.assignment) == (code, b"")

    story(play)


def test_a_member_that_believes_in_another_protocol_is_told_so(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)
            for named in (("consumer", "sticky"), ("consumer", None), (None, None)):
                asked = SyncGroupRequest("g", 1, member, None, *named)
                answer = await house.ask(asked, 5)
                assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    story(play)
