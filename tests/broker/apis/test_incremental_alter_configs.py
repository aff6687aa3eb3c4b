"""IncrementalAlterConfigs: set, delete, append and subtract single settings."""

import asyncio
from pathlib import Path

import pytest

from broker.apis.incremental_alter_configs import incremental_alter_configs
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.runtime.configs.layers import Kind
from broker.runtime.services import Broker
from tests.support.rig import call, create, rig, run

SET, DELETE, APPEND, SUBTRACT = range(4)


def asked(
    *changes: tuple[str, int, str | None], name: str = "t", validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    entries = [AlterableConfig(*change) for change in changes]
    resource = AlterConfigsResource(Kind.TOPIC, name, entries)
    return IncrementalAlterConfigsRequest([resource], validate_only)


def configs(broker: Broker) -> dict[str, str]:
    topic = broker.topics.get("t")
    assert topic is not None
    return dict(topic.configs)


def test_delete_restores_the_default_and_keeps_the_rest(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", retention_ms="5", retention_bytes="9")
            request = asked(("retention.ms", DELETE, None))
            response = await call(incremental_alter_configs, request, broker)
            assert response.responses[0].error_code == 0
            assert configs(broker) == {"retention.bytes": "9"}
            assert partition.config.retention_ms == 604_800_000

    run(scenario)


def test_append_and_subtract_edit_lists_from_their_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for operation, holds in ((APPEND, "delete,compact"), (SUBTRACT, "delete")):
                request = asked(("cleanup.policy", operation, "compact"))
                await call(incremental_alter_configs, request, broker)
                assert configs(broker)["cleanup.policy"] == holds

    run(scenario)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            changes = [("retention.ms", SET, "5"), ("retention.bytes", SET, "9")]
            await asyncio.gather(
                *(
                    call(incremental_alter_configs, asked(change), broker)
                    for change in changes
                )
            )
            assert configs(broker) == {"retention.ms": "5", "retention.bytes": "9"}

    run(scenario)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = asked(("retention.ms", SET, "5"), validate_only=True)
            response = await call(incremental_alter_configs, request, broker)
            assert response.responses[0].error_code == 0
            assert configs(broker) == {}

    run(scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            for validate_only in (True, False):
                request = asked(change, validate_only=validate_only)
                response = await call(incremental_alter_configs, request, broker)
                assert response.responses[0].error_code == code
            assert configs(broker) == {}

    run(scenario)


def test_unknown_topics_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = asked(("retention.ms", SET, "5"), name="nowhere")
            response = await call(incremental_alter_configs, request, broker)
            code = response.responses[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_a_resource_named_twice_is_refused_each_time(tmp_path: Path) -> None:
    """As a Kafka 4.3.1 answers."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", retention_ms="5")
            await create(broker, "u")
            request = asked(("retention.ms", SET, "6"))
            request.resources += asked(("retention.ms", SET, "7"), name="u").resources
            request.resources += asked(("retention.ms", SET, "8")).resources
            response = await call(incremental_alter_configs, request, broker)
            assert [(r.resource_name, r.error_code) for r in response.responses] == [
                ("t", ErrorCode.INVALID_REQUEST),
                ("u", 0),
                ("t", ErrorCode.INVALID_REQUEST),
            ]
            assert configs(broker) == {"retention.ms": "5"}

    run(scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "one"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("no.such", DELETE, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_asked_is_looked_at_before_the_topic_is(
    tmp_path: Path, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    """As a Kafka 4.3.1 answers."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            request = asked(change, name="nobody")
            response = await call(incremental_alter_configs, request, broker)
            assert [r.error_code for r in response.responses] == [code]

    run(scenario)
