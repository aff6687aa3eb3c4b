"""Configurations of many topics, altered with a request for each hundred.

The problem: all that a request asks the broker has the time of one question, and a
topic after the other took two answers each: a thousand of them took most of it. The
idea: the broker is asked for all topics at once. Whether a configuration is known is
looked up of one topic, for all of them have the same ones. The price: where a topic is
named several times it is altered as often, one time after the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from admin_api.configs.owners import Owner, describe, topic_owner, wanted
from admin_api.configs.schemas import (
    AlterTopicsConfigs,
    TopicAlterations,
    TopicFailure,
)
from admin_api.dependencies import Cluster
from admin_api.kafka import GONE, Kafka
from admin_api.problems import Problem, problem_of
from broker.protocol.errors import KafkaError
from broker.topics import names as topic_names


async def alter_topics(
    kafka: Kafka, cluster: Cluster, body: AlterTopicsConfigs
) -> list[TopicFailure]:
    """Each topic is altered, or is among the failures with the reason."""
    failures: dict[int, Exception] = {}
    resources = await _resources(kafka, cluster, body.data, failures)
    for turn in _turns(resources):
        chosen = [resources[number] for number in turn]
        found = await kafka.alter_configs(chosen, bool(body.validate_only))
        answers = zip(turn, found, strict=True)
        failures |= {number: why for number, why in answers if why is not None}
    return [
        _failure(body.data[number].topic_name, failures[number])
        for number in sorted(failures)
    ]


async def _resources(
    kafka: Kafka,
    cluster: Cluster,
    said: Sequence[TopicAlterations],
    failures: dict[int, Exception],
) -> dict[int, ConfigResource]:
    """What the broker is to be asked for, by its place in the request; what it is not
    asked for is among the failures, unless it is nothing."""
    named: dict[int, Owner] = {}
    for number, one in enumerate(said):
        try:
            topic_names.validate(one.topic_name)
        except KafkaError as error:
            failures[number] = error
        else:
            named[number] = topic_owner(cluster, one.topic_name)
    topics = {own.name: own for own in named.values()}
    missing = await kafka.missing_topics(list(topics))
    there = [own for name, own in topics.items() if name not in missing]
    known = await _known(kafka, there)
    resources = {}
    for number, own in named.items():
        try:
            if own.name in missing:
                raise missing[own.name]
            resource = wanted(own, known, said[number].configs)
        except (Problem, KafkaException) as why:
            failures[number] = why
        else:
            if resource is not None:
                resources[number] = resource
    return resources


async def _known(kafka: Kafka, there: Iterable[Owner]) -> Mapping[str, Any]:
    """The configurations of one of these topics, whichever is still there."""
    for own in there:
        try:
            return await describe(kafka, own)
        except KafkaException as error:
            if error.args[0].code() not in GONE:
                raise
    return {}


def _turns(resources: Mapping[int, ConfigResource]) -> list[list[int]]:
    """The places in such lists that none of them names a topic twice."""
    turns: list[list[int]] = []
    times: dict[str, int] = {}
    for number, resource in resources.items():
        turn = times.get(resource.name, 0)
        times[resource.name] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(number)
    return turns


def _failure(topic: str, why: Exception) -> TopicFailure:
    problem = problem_of(why)
    return TopicFailure(
        topic_name=topic, error_code=problem.error_code, message=problem.message
    )
