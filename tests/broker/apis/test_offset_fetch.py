"""OffsetFetch, over the wire: what is committed, and -1 for what is not."""

import pytest

from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.support.coordinating import FLIGHTS, WEATHER, House, housed, story

OLD, MANY = range(8), range(8, 11)
NOWHERE = b"\x09" * 16


async def two_committed(house: House) -> None:
    await house.groups.commit("g", {(1, 0): Committed(5, 3, "m"), (2, 0): Committed(0)})


def rows(topics) -> list[tuple]:
    return [
        (p.partition_index, p.committed_offset, p.metadata, p.error_code)
        for topic in topics
        for p in topic.partitions
    ]


@pytest.mark.parametrize("version", OLD)
def test_one_group(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            asked = OffsetFetchRequest(
                "g",
                [
                    OffsetFetchRequestTopic("flights", [0, 1, 99]),
                    OffsetFetchRequestTopic("nope", [0]),
                ],
            )
            answer = await house.ask(asked, version)
            assert answer.error_code == ErrorCode.NONE
            assert [topic.name for topic in answer.topics] == ["flights", "nope"]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0
            never = (-1, "", unknown)
            assert rows(answer.topics) == [
                (0, 5, "m", 0),
                (1, *never),
                (99, *never),
                (0, *never),
            ]
            epochs = [p.committed_leader_epoch for p in answer.topics[0].partitions]
            assert epochs == ([3, -1, -1] if version >= 5 else [-1, -1, -1])

    story(play)


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_are_all_of_one_group(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            answer = await house.ask(OffsetFetchRequest("g", None), version)
            assert {t.name: rows([t]) for t in answer.topics} == {
                "flights": [(0, 5, "m", 0)],
                "weather": [(0, 0, "", 0)],
            }
            empty = await house.ask(OffsetFetchRequest("nobody", None), version)
            assert (empty.topics, empty.error_code) == ([], 0)

    story(play)


@pytest.mark.parametrize("version", MANY)
def test_many_groups(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            named = [
                OffsetFetchRequestTopics("flights", FLIGHTS.id, [0, 1]),
                OffsetFetchRequestTopics("nope", NOWHERE, [0]),
            ]
            asked = OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup("g", None, -1, named),
                    OffsetFetchRequestGroup("g", None, -1, None),
                    OffsetFetchRequestGroup("nobody", None, -1, named),
                ],
                require_stable=True,
            )
            answer = await house.ask(asked, version)
            some, everything, nobody = answer.groups
            assert [g.group_id for g in answer.groups] == ["g", "g", "nobody"]
            assert [g.error_code for g in answer.groups] == [0, 0, 0]
            lost = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
            unknown = (0, -1, "", lost)
            assert rows(some.topics) == [(0, 5, "m", 0), (1, -1, "", 0), unknown]
            assert rows(everything.topics) == [(0, 5, "m", 0), (0, 0, "", 0)]
            assert rows(nobody.topics) == [(0, -1, "", 0), (1, -1, "", 0), unknown]
            found = [t.topic_id if version >= 10 else t.name for t in everything.topics]
            by_id = [FLIGHTS.id, WEATHER.id]
            assert found == (by_id if version >= 10 else ["flights", "weather"])

    story(play)


def test_offsets_of_a_deleted_topic_are_not_those_of_the_next_of_its_name(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            await house.topics.delete(WEATHER)
            again = await house.topics.create("weather", 1, {})
            asked = OffsetFetchRequest("g", [OffsetFetchRequestTopic("weather", [0])])
            assert rows((await house.ask(asked, 7)).topics) == [(0, -1, "", 0)]
            answer = await house.ask(OffsetFetchRequest("g", None), 7)
            assert [topic.name for topic in answer.topics] == ["flights"]
            assert again.number > WEATHER.number

    story(play)


@pytest.mark.parametrize("version", OLD)
def test_a_partition_that_is_named_again_is_not_told_again(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            flights = OffsetFetchRequestTopic("flights", [0, 1, 0])
            asked = OffsetFetchRequest("g", [flights, flights] * 600)
            answer = await house.ask(asked, version)
            assert [row[:2] for row in rows(answer.topics)] == [(0, 5), (1, -1)]

    story(play)


@pytest.mark.parametrize("version", MANY)
def test_a_group_that_is_named_again_is_told_once(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await two_committed(house)
            flights = OffsetFetchRequestTopics("flights", FLIGHTS.id, [0, 1, 0])
            weather = OffsetFetchRequestTopics("weather", WEATHER.id, [0])
            groups = [
                OffsetFetchRequestGroup(group_id="g", topics=[flights, flights]),
                OffsetFetchRequestGroup(group_id="g", topics=[flights, weather]),
                OffsetFetchRequestGroup(group_id="other", topics=[flights]),
                OffsetFetchRequestGroup(group_id="g", topics=None),
                OffsetFetchRequestGroup(group_id="g", topics=None),
            ]
            answer = await house.ask(OffsetFetchRequest(groups=groups), version)
            told = [[row[:2] for row in rows(one.topics)] for one in answer.groups]
            assert told == [
                [(0, 5), (1, -1)],
                [(0, 0)],
                [(0, -1), (1, -1)],
                [(0, 5), (0, 0)],
                [],
            ]

    story(play)


async def one_pending(house: House) -> None:
    """Flights 0 is committed and pending, flights 1 only pending, flights 2 neither."""
    await two_committed(house)
    pending = {(1, 0): Committed(9), (1, 1): Committed(9)}
    await house.groups.offsets.commit_pending("g", 77, pending)


def stable_request(version: int, topics: list | None, stable: bool = True):
    if version < 8:
        asked = topics and [OffsetFetchRequestTopic("flights", topics)]
        return OffsetFetchRequest("g", asked, require_stable=stable)
    named = topics and [OffsetFetchRequestTopics("flights", FLIGHTS.id, topics)]
    groups = [OffsetFetchRequestGroup("g", topics=named)]
    return OffsetFetchRequest(groups=groups, require_stable=stable)


def topics_of(answer, version: int):
    return answer.topics if version < 8 else answer.groups[0].topics


UNSTABLE = (-1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize("version", range(7, 11))
def test_what_an_open_transaction_may_change_is_not_told_as_stable(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await one_pending(house)
            answer = await house.ask(stable_request(version, [0, 1, 2]), version)
            found = rows(topics_of(answer, version))
            assert found == [(0, *UNSTABLE), (1, *UNSTABLE), (2, -1, "", 0)]
            lax = stable_request(version, [0, 1, 2], stable=False)
            found = rows(topics_of(await house.ask(lax, version), version))
            assert found == [(0, 5, "m", 0), (1, -1, "", 0), (2, -1, "", 0)]
            answer = await house.ask(stable_request(version, None), version)
            assert rows(topics_of(answer, version)) == [(0, *UNSTABLE), (0, 0, "", 0)]
            await house.groups.offsets.end_pending("g", 77, commits=True)
            answer = await house.ask(stable_request(version, [0, 1, 2]), version)
            found = rows(topics_of(answer, version))
            assert found == [(0, 9, "", 0), (1, 9, "", 0), (2, -1, "", 0)]

    story(play)
