"""DescribeConfigs: the complete list, with sources, synonyms and documentation."""

from pathlib import Path
from typing import Any

import pytest

from broker.apis.describe_configs import describe_configs
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from broker.runtime.configs.layers import Kind
from broker.topics.broker_alter import DYNAMIC
from broker.topics.config_keys import ConfigSource, ConfigType
from broker.topics.configs import TOPIC_CONFIGS
from tests.support.rig import NODE_ID, call, create, rig, run


def asked(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Any:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **more)


def test_a_topic_has_every_key_with_its_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            response = await call(describe_configs, asked(Kind.TOPIC, "t"), broker)
            (result,) = response.results
            of_none = await call(describe_configs, asked(Kind.TOPIC, "t", []), broker)
            assert of_none.results == [result]  # as Kafka: no keys are all keys
            values = {entry.name: entry.value for entry in result.configs}
            assert values.keys() == TOPIC_CONFIGS.keys()
            assert values["cleanup.policy"] == "delete"
            assert values["retention.ms"] == "604800000"
            assert {entry.read_only for entry in result.configs} == {False}

    run(scenario)


def test_sources_and_synonyms_say_where_a_value_comes_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, message_max_bytes=5000) as broker:
            await create(broker, "t", max_message_bytes="700", retention_ms="9")
            keys = ["max.message.bytes", "retention.ms", "cleanup.policy"]
            request = asked(Kind.TOPIC, "t", keys, include_synonyms=True)
            response = await call(describe_configs, request, broker)
            found = {entry.name: entry for entry in response.results[0].configs}
            assert found.keys() == set(keys)
            chain = [
                (one.name, one.value, one.source)
                for one in found["max.message.bytes"].synonyms
            ]
            assert chain == [
                ("max.message.bytes", "700", ConfigSource.TOPIC_CONFIG),
                ("message.max.bytes", "5000", ConfigSource.STATIC_BROKER_CONFIG),
                ("message.max.bytes", "1048588", ConfigSource.DEFAULT_CONFIG),
            ]
            assert found["retention.ms"].config_source == ConfigSource.TOPIC_CONFIG
            assert found["cleanup.policy"].config_source == ConfigSource.DEFAULT_CONFIG

    run(scenario)


def test_synonyms_and_documentation_come_when_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            keys = ["retention.ms"]
            response = await call(
                describe_configs, asked(Kind.TOPIC, "t", keys), broker
            )
            (entry,) = response.results[0].configs
            assert (entry.synonyms, entry.documentation) == ([], None)
            assert entry.config_type == ConfigType.LONG
            request = asked(Kind.TOPIC, "t", keys, include_documentation=True)
            response = await call(describe_configs, request, broker)
            assert response.results[0].configs[0].documentation

    run(scenario)


def test_the_broker_tells_where_it_listens(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            keys = ["listeners", "advertised.listeners"]
            request = asked(Kind.BROKER, str(broker.node_id), keys)
            (result,) = (await call(describe_configs, request, broker)).results
            values = {entry.name: entry.value for entry in result.configs}
            host, port = broker.advertised
            assert values == {
                "advertised.listeners": f"PLAINTEXT://{host}:{port}",
                "listeners": f"PLAINTEXT://{broker.settings.listener}",
            }
            broker.advertised = ("::1", 9)
            (result,) = (await call(describe_configs, request, broker)).results
            assert result.configs[0].value == "PLAINTEXT://[::1]:9"

    run(scenario)


def test_the_broker_tells_its_settings_and_which_can_be_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, num_partitions=4, auto_create_topics=False) as broker:
            request = asked(Kind.BROKER, str(NODE_ID))
            response = await call(describe_configs, request, broker)
            (result,) = response.results
            assert result.error_code == 0
            values = {entry.name: entry.value for entry in result.configs}
            assert values["num.partitions"] == "4"
            assert values["auto.create.topics.enable"] == "false"
            assert values["message.max.bytes"] == "1048588"
            assert values["node.id"] == str(NODE_ID)
            changed = {one.name for one in result.configs if not one.read_only}
            assert changed == DYNAMIC
            of_all = await call(describe_configs, asked(Kind.BROKER, ""), broker)
            assert of_all.results[0].configs == []  # nobody has set anything

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (Kind.TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Kind.TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Kind.BROKER, "99", ErrorCode.INVALID_REQUEST),
        (Kind.BROKER, "seven", ErrorCode.INVALID_REQUEST),
        (Kind.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (Kind.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (Kind.GROUP, "", ErrorCode.INVALID_REQUEST),
        (Kind.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_refused_by_itself(
    tmp_path: Path, kind: int, name: str, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            response = await call(describe_configs, asked(kind, name), broker)
            (result,) = response.results
            assert (result.error_code, result.configs) == (code, [])
            assert result.error_message

    run(scenario)


def test_version_0_says_what_is_a_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", retention_ms="9")
            request = asked(Kind.TOPIC, "t", ["retention.ms", "cleanup.policy"])
            response = await call(describe_configs, request, broker, 0)
            told = {one.name: one.is_default for one in response.results[0].configs}
            assert told == {"retention.ms": False, "cleanup.policy": True}

    run(scenario)


def test_what_is_named_again_is_not_described_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            resources = [
                DescribeConfigsResource(kind, name, None)
                for kind, name in [
                    (Kind.TOPIC, "t"),
                    (Kind.BROKER, ""),
                    (Kind.TOPIC, "t"),
                ]
                * 20
            ]
            request = DescribeConfigsRequest(resources)
            response = await call(describe_configs, request, broker)
            told = [(one.resource_type, one.resource_name) for one in response.results]
            assert told == [(Kind.TOPIC, "t"), (Kind.BROKER, "")]

    run(scenario)
