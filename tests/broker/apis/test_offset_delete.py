"""OffsetDelete, over the wire."""

import asyncio

from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from broker.protocol.messages.leave_group import LeaveGroupRequest
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.runtime.coordination.coordinator_offsets import CHANGED_A_TURN
from tests.support.coordinating import FLIGHTS, House, housed, story
from tests.support.members import a_join, stable


def a_deletion(*names: str, partitions=(0,), group_id="g") -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(index) for index in partitions]
    topics = [OffsetDeleteRequestTopic(name, asked) for name in names]
    return OffsetDeleteRequest(group_id, topics)


async def two_committed(house: House) -> None:
    await house.groups.commit("g", {(1, 0): Committed(5), (2, 0): Committed(6)})


def codes(answer) -> list[int]:
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def test_offsets_of_a_group_without_members_go(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            answer = await house.ask(a_deletion("flights", partitions=(0, 1, 9)), 0)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (answer.error_code, codes(answer)) == (0, [0, 0, unknown])
        async with housed(tmp_path) as house:
            assert list(house.groups.fetch("g")) == [(2, 0)]

    story(play)


def test_of_consumers_only_topics_that_nobody_reads(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            await stable(house)
            answer = await house.ask(a_deletion("flights", "weather", "nope"), 0)
            assert codes(answer) == [
                ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            assert list(house.groups.fetch("g")) == [(1, 0)]
            again = await house.ask(a_deletion("flights"), 0)
            assert codes(again) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    story(play)


WEATHER_READ = b"\x00\x00\x00\x00\x00\x01\x00\x07weather"
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def reading_weather(member_id: str = "") -> JoinGroupRequest:
    said = [JoinGroupRequestProtocol("range", WEATHER_READ)]
    return a_join(member_id, protocols=said)


def test_during_a_rebalance_what_was_read_in_the_last_generation_counts(tmp_path):
    """As an Apache Kafka 4.3.1 answers: ``ClassicGroup.isSubscribedToTopic``."""

    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            first = await stable(house)
            second = await house.asking(reading_weather(), 3)
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, ErrorCode.NONE]
            await house.ask(reading_weather(first), 3)
            await second
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [ErrorCode.NONE, SUBSCRIBED]

    story(play)


def test_what_a_member_says_anew_counts_from_the_next_generation_on(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            first = await stable(house)
            given = (await house.ask(a_join(), 5)).member_id  # is waited for
            parked = await house.asking(reading_weather(first), 5)
            assert not parked.done()
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, ErrorCode.NONE]
            both = await asyncio.gather(parked, house.ask(a_join(given), 5))
            assert {one.generation_id for one in both} == {2}
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, SUBSCRIBED]

    story(play)


def test_a_group_that_was_empty_has_read_nothing_until_all_have_joined(tmp_path):
    async def play():
        async with housed(tmp_path, initial_rebalance_delay_ms=1_000) as house:
            await two_committed(house)
            parked = await house.asking(a_join(), 3)
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, SUBSCRIBED]  # nobody knows yet
            await house.pass_time(1_000)
            member = (await parked).member_id
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, ErrorCode.NONE]
            await house.ask(LeaveGroupRequest("g", member), 2)
            parked = await house.asking(a_join(), 3)
            answer = await house.ask(a_deletion("flights"), 0)
            assert codes(answer) == [ErrorCode.NONE]
            await house.pass_time(1_000)
            await parked

    story(play)


def test_after_a_restart_what_the_stored_generation_reads_counts(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            await stable(house)
        async with housed(tmp_path) as house:
            answer = await house.ask(a_deletion("flights", "weather"), 0)
            assert codes(answer) == [SUBSCRIBED, ErrorCode.NONE]

    story(play)


def test_other_kinds_of_groups_must_be_empty(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            await stable(house, protocol_type="connect")
            answer = await house.ask(a_deletion("flights"), 0)
            expected = (ErrorCode.NON_EMPTY_GROUP, [])
            assert (answer.error_code, answer.topics) == expected

    story(play)


def test_a_group_nobody_knows_has_none(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(a_deletion("flights"), 0)
            assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            answer = await house.ask(a_deletion("flights", group_id=""), 0)
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID

    story(play)


def test_a_catalog_that_fails_is_told(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            house.catalog.close()
            answer = await house.ask(a_deletion("flights"), 0)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    story(play)


def test_who_would_wait_where_there_is_no_room_is_told_to_come_again(tmp_path):
    many = {FLIGHTS.key(n): Committed(1) for n in range(CHANGED_A_TURN + 1)}

    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("g", many)
        async with housed(tmp_path, memory_bytes_max=1) as house:
            done = house.groups.commit("g", many)
            answer = await house.ask(a_deletion("flights"), 0)
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await done
            assert codes(await house.ask(a_deletion("flights"), 0)) == [0]

    story(play)
