"""A group that became active between the look and the commit."""

import asyncio

import pytest
from confluent_kafka import KafkaError, KafkaException

from admin_api.problems import Problem
from admin_api.resets.reset import reset
from admin_api.resets.schemas import ResetOffsets
from tests.support.confluent import Member, produce_all, until


def test_a_group_that_became_active_meanwhile_is_told_so(plane, monkeypatch):
    plane.create("raced")
    produce_all(plane.bootstrap, "raced", [(None, b"v", None, 0)])
    kafka = plane.app.state.kafka
    wanted = ResetOffsets(to="LATEST", topics=[{"topic_name": "raced"}], dry_run=False)

    async def nobody(_ids):
        raise KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND))

    monkeypatch.setattr(kafka, "describe_groups", nobody)
    member = Member(plane.bootstrap, "raced", "racers")
    until(lambda: member.assigned, [member])
    with pytest.raises(Problem, match="no more EMPTY") as problem:
        asyncio.run(reset(kafka, "racers", wanted, 0))
    assert problem.value.error_code == 40901
    member.consumer.close()
