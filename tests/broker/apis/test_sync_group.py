"""SyncGroup, over the wire."""

import asyncio
import gc

import pytest

from broker.apis.sync_group import sync_group_in_turns
from broker.dispatch.context import Context
from broker.dispatch.turns import COUNTED_A_TURN, Reading
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


async def read_in_turns(request, house):
    """What the handler gives for a request that was read in turns, and is not kept."""

    def steps():
        yield
        return request()

    key = int(SyncGroupRequest.API_KEY)
    context = Context(4, "c", key, "10.0.0.1", house.broker)
    reading = Reading(steps(), sync_group_in_turns, context)
    while (result := reading.step()) is reading:
        await asyncio.sleep(0)
    return result


def shares_alive():
    kinds = map(type, gc.get_objects())
    return sum(kind is SyncGroupRequestAssignment for kind in kinds)


def test_what_a_member_said_is_not_kept_while_its_answer_is_parked(tmp_path):
    many, turns = 10 * COUNTED_A_TURN, 100

    async def play():
        async with housed(tmp_path) as house:
            leader = await stable(house)
            joining = await house.asking(a_join(), 3)
            await house.ask(a_join(leader), 3)
            follower = (await joining).member_id

            def asked():
                shares = [SyncGroupRequestAssignment("x", b"") for _ in range(many)]
                return SyncGroupRequest("g", 2, follower, assignments=shares)

            others = shares_alive()
            parked = await read_in_turns(asked, house)
            waiting = asyncio.ensure_future(parked)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert shares_alive() - others < COUNTED_A_TURN
            led = SyncGroupRequest("g", 2, leader)
            assert (await house.ask(led, 3)).error_code == 0
            assert (await waiting).error_code == 0

    story(play)


def test_only_members_are_assigned_what_is_said_last_of_many(tmp_path):
    strangers = [SyncGroupRequestAssignment("x", b"") for _ in range(COUNTED_A_TURN)]

    async def play():
        async with housed(tmp_path) as house:
            leader = await joined(house)
            first, last = (SyncGroupRequestAssignment(leader, a) for a in (b"1", b"2"))
            said = [first, *strangers, last, *strangers]
            asked = SyncGroupRequest("g", 1, leader, assignments=said)
            assert (await house.ask(asked, 4)).assignment == b"2"

    story(play)
