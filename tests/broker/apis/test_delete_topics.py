"""DeleteTopics: by name and by id, gone at once, made again as another."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.apis import delete_topics as module
from broker.apis.delete_topics import delete_topics
from broker.apis.metadata import metadata
from broker.dispatch.context import Context
from broker.dispatch.turns import PARTS_A_TURN, Underway
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.metadata import MetadataRequest
from broker.runtime.process.long_work import LongWork
from tests.support.rig import (
    batch_of,
    call,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
    values_in,
)


def test_a_deleted_topic_is_gone_for_everybody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = DeleteTopicsRequest(topic_names=["t"])
            response = await call(delete_topics, request, broker, 5)
            assert response.responses[0].error_code == 0
            told = await call(metadata, MetadataRequest(None), broker)
            assert [topic.name for topic in told.topics] == ["__consumer_offsets"]
            answer = await produce_one(broker, "t", batch_of(b"a"))
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with rig(tmp_path) as broker:
            assert broker.topics.get("t") is None

    run(scenario)


def test_a_topic_made_again_is_another_and_starts_at_0(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"old"))
            before = broker.topics.get("t")
            await call(
                delete_topics, DeleteTopicsRequest([DeleteTopicState("t")]), broker
            )
            await create(broker, "t")
            after = broker.topics.get("t")
            assert before is not None
            assert after is not None
            assert before.id != after.id
            assert before.number != after.number
            assert (await produce_one(broker, "t", batch_of(b"new"))).base_offset == 0
        async with rig(tmp_path) as broker:
            assert values_in(await fetch_one(broker, "t", 0)) == [b"new"]

    run(scenario)


def test_a_topic_made_while_others_are_deleted_is_not_meant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            many = [DeleteTopicState(f"first-{n}") for n in range(PARTS_A_TURN)]
            for one in many:
                await create(broker, str(one.name))
            request = DeleteTopicsRequest([*many, DeleteTopicState("t")])
            others = [LongWork() for _ in range(50_000)]
            is_held = True

            def go_on(work: LongWork) -> None:
                if is_held:
                    work.later(partial(go_on, work))

            for work in others:  # so that it waits for its turns
                go_on(work)
            late = asyncio.ensure_future(call(delete_topics, request, broker))
            await asyncio.sleep(0)
            await call(
                delete_topics, DeleteTopicsRequest([DeleteTopicState("t")]), broker
            )
            await create(broker, "t")
            assert not late.done()
            is_held = False
            *_, result = (await late).responses
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert broker.topics.get("t") is not None

    run(scenario)


def test_who_hangs_up_while_many_names_are_looked_up_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COUNTED_A_TURN", 5)

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            asked = [DeleteTopicState(f"none-{n}") for n in range(9)]
            request = DeleteTopicsRequest([DeleteTopicState("t"), *asked])
            underway = delete_topics(request, Context(6, "c", 20, "h", broker))
            assert isinstance(underway, Underway)
            underway.abandon()
            for _ in range(9):
                await asyncio.sleep(0)
            await create(broker, "later")  # behind what the catalog was asked for
            assert broker.topics.get("t") is not None

    run(scenario)


def test_of_what_is_asked_at_once_all_goes_whoever_hangs_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = DeleteTopicsRequest([DeleteTopicState("t")])
            deleting = delete_topics(request, Context(6, "c", 20, "h", broker))
            assert not hasattr(deleting, "abandon")
            await deleting
            assert broker.topics.get("t") is None

    run(scenario)


def test_topics_are_deleted_by_id_in_version_6(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = broker.topics.get("t")
            assert topic is not None
            request = DeleteTopicsRequest([DeleteTopicState(None, topic.id)])
            response = await call(delete_topics, request, broker)
            (result,) = response.responses
            assert (result.error_code, result.name) == (0, "t")
            response = await call(delete_topics, request, broker)
            (result,) = response.responses
            assert (result.error_code, result.name) == (
                ErrorCode.UNKNOWN_TOPIC_ID,
                None,
            )

    run(scenario)


def test_each_is_refused_for_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await create(broker, "twice")
            request = DeleteTopicsRequest(
                [
                    DeleteTopicState("nowhere"),
                    DeleteTopicState("t", b"x" * 16),
                    DeleteTopicState(None),
                    DeleteTopicState("twice"),
                    DeleteTopicState("twice"),
                    DeleteTopicState("t"),
                ]
            )
            response = await call(delete_topics, request, broker)
            codes = [result.error_code for result in response.responses]
            invalid = ErrorCode.INVALID_REQUEST
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == [unknown, invalid, invalid, invalid, 0]
            assert all(r.error_message for r in response.responses[:4])
            assert broker.topics.get("twice") is not None

    run(scenario)


def test_a_topic_that_is_named_by_name_and_by_id_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await create(broker, "u")
            t, u = broker.topics.named("t"), broker.topics.named("u")
            asked = [
                DeleteTopicState(None, t.id),
                DeleteTopicState("t"),
                DeleteTopicState(None, u.id),
            ]
            response = await call(delete_topics, DeleteTopicsRequest(asked), broker)
            found = {one.name: one.error_code for one in response.responses}
            assert found == {"t": ErrorCode.INVALID_REQUEST, "u": 0}
            assert len(response.responses) == 2
            assert broker.topics.get("t") is t

    run(scenario)


def test_names_and_ids_beside_each_other_are_answered_as_kafka_answers_them(
    tmp_path: Path,
) -> None:
    """Each was asked of Apache Kafka 4.3.1; but what names a topic in no way, or two,
    is answered once."""
    invalid = ErrorCode.INVALID_REQUEST

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic_id = broker.topics.named("t").id
            by_name, by_id = DeleteTopicState("t"), DeleteTopicState(None, topic_id)
            both, neither = DeleteTopicState("t", topic_id), DeleteTopicState(None)

            async def answers(*asked: DeleteTopicState) -> list[tuple[Any, ...]]:
                request = DeleteTopicsRequest(list(asked))
                told = (await call(delete_topics, request, broker)).responses
                return [
                    (one.name, one.topic_id, one.error_code, one.error_message)
                    for one in told
                ]

            maps = "The provided topic name maps to an ID that was already supplied."
            assert await answers(by_name, by_id) == [("t", topic_id, invalid, maps)]
            assert await answers(by_id, by_id, by_name) == [
                (None, topic_id, invalid, "Duplicate topic id."),
                ("t", topic_id, invalid, maps),
            ]
            why = "Neither topic name nor id were specified."
            assert await answers(neither, neither) == [(None, bytes(16), invalid, why)]
            why = "You may not specify both topic name and topic id."
            assert await answers(both, both) == [("t", topic_id, invalid, why)]
            assert await answers(by_name, by_name, by_id) == [
                ("t", bytes(16), invalid, "Duplicate topic name."),
                ("t", topic_id, 0, None),
            ]
            assert broker.topics.get("t") is None

    run(scenario)


def test_a_name_of_32_kib_is_only_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            asked = [DeleteTopicState("x" * 32_767), DeleteTopicState(None)]
            response = await call(delete_topics, DeleteTopicsRequest(asked), broker)
            codes = [one.error_code for one in response.responses]
            assert codes == [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.INVALID_REQUEST,
            ]

    run(scenario)
