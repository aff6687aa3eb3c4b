"""Heartbeat, over the wire."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.coordinating import housed, story
from tests.support.members import a_join, stable

VERSIONS = range(5)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_is_answered_by_what_is_the_case(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            member = await stable(house)

            async def code(*fields):
                return (await house.ask(HeartbeatRequest(*fields), version)).error_code

            assert await code("g", 1, member) == ErrorCode.NONE
            assert await code("g", 2, member) == ErrorCode.ILLEGAL_GENERATION
            assert await code("g", 1, "x") == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code("h", 1, member) == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code("", 1, member) == ErrorCode.INVALID_GROUP_ID
            parked = await house.asking(a_join(), 3)
            assert await code("g", 1, member) == ErrorCode.REBALANCE_IN_PROGRESS
            await house.pass_time(10_000)
            assert (await parked).generation_id == 2

    story(play)


def test_the_old_self_of_a_static_member_is_fenced(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            static = a_join("", "s", group_instance_id="i")
            first = (await house.ask(static, 5)).member_id
            await house.ask(static, 5)
            beat = HeartbeatRequest("s", 1, first, "i")
            answer = await house.ask(beat, 4)
            assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID

    story(play)
