"""Configurations of brokers, loggers, groups and client metrics, over the wire.

What each refusal says is Kafka's (``tests/clients/config_corners.txt``). Here: that a
change is in effect when it is answered, outlives a restart, and cannot be too much.
"""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.runtime.configs.dynamic_configs import KEYS_MAX
from broker.runtime.configs.layers import Kind
from tests.support.config_requests import (
    DELETE,
    LONG,
    SET,
    altered,
    described,
    replaced,
)
from tests.support.coordinating import House, housed, story
from tests.support.rig import batch_of, produce_one

NODE = "7"


async def change(house: House, *changes, kind=Kind.BROKER, name=NODE) -> int:
    answer = await house.ask(altered(kind, name, *changes), 1)
    code: int = answer.responses[0].error_code
    return code


async def value(house: House, key: str, kind=Kind.BROKER, name=NODE):
    answer = await house.ask(described(kind, name, key), 4)
    [found] = answer.results[0].configs
    return found.value, found.config_source


async def answered(house: House, topic: str) -> int:
    return (await produce_one(house.broker, topic, batch_of(b"x" * 200))).error_code


def test_the_largest_batch_is_another_one_at_once_and_after_a_restart(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            assert await answered(house, "flights") == 0
            assert await change(house, ("message.max.bytes", SET, "100")) == 0
            assert await answered(house, "flights") == ErrorCode.MESSAGE_TOO_LARGE
            made = CreateTopicsRequest([CreatableTopic("new", 1, 1)])
            assert (await house.ask(made, 4)).topics[0].error_code == 0
            assert await answered(house, "new") == ErrorCode.MESSAGE_TOO_LARGE
        async with housed(tmp_path) as house:
            assert house.broker.settings.broker.message_max_bytes == 100
            assert await value(house, "message.max.bytes") == ("100", 2)
            assert await answered(house, "flights") == ErrorCode.MESSAGE_TOO_LARGE
            assert await change(house, ("message.max.bytes", DELETE, None)) == 0
            assert await answered(house, "flights") == 0

    story(play)


def test_a_topics_own_value_is_before_the_brokers(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            topic, key = house.broker.partitions.named("flights", 0), "retention.ms"
            await change(house, (f"log.{key}", SET, "500"), name="")
            assert topic.config.retention_ms == 500
            await change(house, (f"log.{key}", SET, "600"))
            assert topic.config.retention_ms == 600
            await change(house, (key, SET, "700"), kind=Kind.TOPIC, name="flights")
            assert topic.config.retention_ms == 700
            await change(house, (key, DELETE, None), kind=Kind.TOPIC, name="flights")
            await change(house, (f"log.{key}", DELETE, None))
            assert topic.config.retention_ms == 500

    story(play)


def test_settings_of_the_process_follow(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await change(
                house,
                ("max.connections", SET, "5"),
                ("max.connections.per.ip", SET, "4"),
                ("producer.id.expiration.ms", SET, "3"),
            )
            settings = house.broker.settings
            assert settings.network.connections_max == 5
            assert settings.network.connections_per_host_max == 4
            assert settings.broker.producer_id_expiration_ms == 3

    story(play)


def test_all_of_a_configuration_is_replaced(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await change(house, ("max.connections", SET, "5"))
            request = replaced(Kind.BROKER, NODE, log_retention_ms="9")
            assert (await house.ask(request, 2)).responses[0].error_code == 0
            assert (await value(house, "max.connections"))[1] == 4
            assert await value(house, "log.retention.ms") == ("9", 2)

    story(play)


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (Kind.GROUP, "g", "share.auto.offset.reset"),
        (Kind.CLIENT_METRICS, "s", "metrics"),
    ],
)
def test_groups_and_client_metrics_are_configured_for_good(tmp_path, kind, name, key):
    async def play():
        async with housed(tmp_path) as house:
            set_it = (key, SET, "earliest")
            assert await change(house, set_it, kind=kind, name=name) == 0
        async with housed(tmp_path) as house:
            assert (await value(house, key, kind, name))[0] == "earliest"

    story(play)


@pytest.mark.parametrize("kind", [Kind.BROKER, Kind.GROUP, Kind.CLIENT_METRICS])
def test_too_much_is_refused_and_nothing_is_kept(tmp_path, kind):
    async def play():
        async with housed(tmp_path) as house:
            name = NODE if kind == Kind.BROKER else "g"
            many = [(f"k{n}", SET, LONG) for n in range(KEYS_MAX + 1)]
            refused = await change(house, *many, kind=kind, name=name)
            assert refused == ErrorCode.POLICY_VIOLATION
            code = await change(house, (LONG, SET, LONG), kind=kind, name=name)
            assert (code == 0) == (kind == Kind.BROKER)  # nobody knows what it is
            whole = {f"k{n}": LONG for n in range(KEYS_MAX)}
            answer = await house.ask(replaced(kind, name, **whole), 2)
            assert answer.responses[0].error_code != 0
            assert len(house.broker.configs.of(kind, name)) <= 1

    story(play)


def test_an_expression_that_would_take_for_ever_is_none_of_ours(tmp_path):
    """RE2 reads a text once; what it cannot hold in memory is refused."""

    async def play():
        async with housed(tmp_path) as house:
            for expression, code in (
                ("(a+)+$", 0),
                ("(", ErrorCode.INVALID_CONFIG),
                ("((a{1000}){1000}){1000}", ErrorCode.INVALID_CONFIG),
                (r"(?=a)", ErrorCode.INVALID_CONFIG),
            ):
                asked = ("match", SET, f"client_id={expression}")
                found = await change(house, asked, kind=Kind.CLIENT_METRICS, name="s")
                assert found == code, expression

    story(play)
