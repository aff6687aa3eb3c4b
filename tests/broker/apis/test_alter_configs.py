"""AlterConfigs: replaces all settings of a topic, durably and at once."""

import re
from pathlib import Path
from typing import Any

import pytest

from broker.apis.alter_configs import alter_configs
from broker.apis.incremental_alter_configs import incremental_alter_configs
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig as Edit,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as EditedResource,
)
from broker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from broker.runtime.configs.layers import Kind
from broker.topics.config_alter import Operation
from tests.support.rig import batch_of, call, create, produce_one, rig, run


def asked(
    kind: int, name: str, *, validate_only: bool = False, **configs: Any
) -> AlterConfigsRequest:
    entries = [
        AlterableConfig(key.replace("_", "."), value) for key, value in configs.items()
    ]
    return AlterConfigsRequest(
        [AlterConfigsResource(kind, name, entries)], validate_only
    )


def test_what_is_not_named_goes_back_to_its_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t", retention_ms="5")
            request = asked(Kind.TOPIC, "t", retention_bytes="9")
            response = await call(alter_configs, request, broker)
            assert response.responses[0].error_code == 0
            topic = broker.topics.get("t")
            assert topic is not None
            assert topic.configs == {"retention.bytes": "9"}
            assert partition.config.retention_ms == 604_800_000
            assert partition.config.retention_bytes == 9

    run(scenario)


def test_a_change_is_effective_and_survives_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await call(
                alter_configs, asked(Kind.TOPIC, "t", max_message_bytes="100"), broker
            )
            answer = await produce_one(broker, "t", batch_of(b"x" * 100))
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 0).config.max_message_bytes == 100

    run(scenario)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            request = asked(Kind.TOPIC, "t", validate_only=True, retention_ms="5")
            response = await call(alter_configs, request, broker)
            assert response.responses[0].error_code == 0
            assert partition.config.retention_ms == 604_800_000

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (Kind.TOPIC, "nowhere", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Kind.TOPIC, "t", {"retention_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        (Kind.TOPIC, "t", {"no_such_key": "1"}, ErrorCode.INVALID_CONFIG),
        (Kind.TOPIC, "t", {"retention_ms": None}, ErrorCode.INVALID_REQUEST),
        (Kind.TOPIC, "", {}, ErrorCode.INVALID_REQUEST),
        (Kind.TOPIC, "no name", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Kind.BROKER, "", {"num_partitions": "3"}, ErrorCode.INVALID_REQUEST),
        (Kind.BROKER, "99", {}, ErrorCode.INVALID_REQUEST),
        (Kind.GROUP, "g", {"nope": "1"}, ErrorCode.INVALID_CONFIG),
        (Kind.BROKER_LOGGER, "7", {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path,
    kind: int,
    name: str,
    configs: dict[str, Any],
    code: ErrorCode,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            response = await call(alter_configs, asked(kind, name, **configs), broker)
            assert response.responses[0].error_code == code
            assert response.responses[0].error_message

    run(scenario)


def test_a_resource_named_twice_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = asked(Kind.TOPIC, "t", retention_ms="5")
            request.resources.append(request.resources[0])
            response = await call(alter_configs, request, broker)
            codes = [result.error_code for result in response.responses]
            assert codes == [ErrorCode.INVALID_REQUEST] * 2

    run(scenario)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([("retention.ms", "1"), ("retention.ms", "2")], "duplicate"),
        ([("x", None), ("retention.ms", "1"), ("retention.ms", "2")], "duplicate"),
        ([("no.such.key", "1"), ("retention.ms", None)], "Null value .* retention.ms"),
    ],
)
def test_a_key_named_twice_is_refused_first_and_then_a_null(
    tmp_path: Path, entries: list[tuple[str, str | None]], why: str
) -> None:
    """As a Kafka 4.3.1 answers."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", retention_ms="5")
            configs = [AlterableConfig(*one) for one in entries]
            request = AlterConfigsRequest(
                [AlterConfigsResource(Kind.TOPIC, "t", configs)]
            )
            (result,) = (await call(alter_configs, request, broker)).responses
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert re.search(why, result.error_message or "")
            topic = broker.topics.get("t")
            assert topic is not None
            assert topic.configs == {"retention.ms": "5"}

    run(scenario)


@pytest.mark.parametrize(
    ("name", "entries", "code"),
    [
        ("nobody", ["1", "2"], ErrorCode.INVALID_REQUEST),
        ("nobody", [None], ErrorCode.INVALID_REQUEST),
        ("nobody", ["one"], ErrorCode.INVALID_CONFIG),
        ("nobody", ["1"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ["1", "2"], ErrorCode.INVALID_REQUEST),
        ("a b", ["1"], ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
@pytest.mark.parametrize("incremental", [False, True])
def test_keys_are_refused_before_the_topic_is_looked_for(
    tmp_path: Path,
    name: str,
    entries: list[str | None],
    code: ErrorCode,
    incremental: bool,
) -> None:
    """As a Kafka 4.3.1 answers."""
    given = [("retention.ms", value) for value in entries]

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            if incremental:
                edits = [Edit(key, 0, value) for key, value in given]
                edited = [EditedResource(Kind.TOPIC, name, edits)]
                request: Any = IncrementalAlterConfigsRequest(edited)
                answer = await call(incremental_alter_configs, request, broker)
            else:
                configs = [AlterableConfig(*one) for one in given]
                request = AlterConfigsRequest(
                    [AlterConfigsResource(Kind.TOPIC, name, configs)]
                )
                answer = await call(alter_configs, request, broker)
            assert answer.responses[0].error_code == code

    run(scenario)


def test_a_default_of_the_broker_counts_where_the_topic_says_the_other_end(
    tmp_path: Path,
) -> None:
    """Of the two lags, as in Kafka: when a topic is made, and when it is changed."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            shortest = asked(Kind.BROKER, "", log_cleaner_max_compaction_lag_ms="5")
            answer = await call(alter_configs, shortest, broker)
            assert answer.responses[0].error_code == 0
            edit = Edit("min.compaction.lag.ms", Operation.SET, "10")
            edited = IncrementalAlterConfigsRequest(
                [EditedResource(Kind.TOPIC, "t", [edit])], False
            )
            replaced = asked(Kind.TOPIC, "t", min_compaction_lag_ms="10")
            for alter, request in (
                (alter_configs, replaced),
                (incremental_alter_configs, edited),
            ):
                answer = await call(alter, request, broker)
                assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
            with pytest.raises(AssertionError, match=r"lag.ms \(10\) > max"):
                await create(broker, "u", min_compaction_lag_ms="10")
            await create(broker, "v", min_compaction_lag_ms="3")

    run(scenario)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topics_warehouse_stays(tmp_path: Path, *, validate_only: bool) -> None:
    key = "lake.warehouse"

    def edited(*entries: tuple[Operation, str]) -> IncrementalAlterConfigsRequest:
        edits = [Edit(key, int(verb), value) for verb, value in entries]
        edits.append(Edit("retention.ms", int(Operation.SET), "7"))
        return IncrementalAlterConfigsRequest(
            [EditedResource(Kind.TOPIC, "t", edits)], validate_only
        )

    async def scenario() -> None:
        async with rig(tmp_path, warehouses="fast=/mnt/a,slow=/mnt/b") as broker:
            await create(broker, "t", lake_warehouse="fast")
            refused = [
                (incremental_alter_configs, edited((Operation.SET, "slow"))),
                (incremental_alter_configs, edited((Operation.SET, ""))),
                (incremental_alter_configs, edited((Operation.DELETE, ""))),
                (alter_configs, replaced(lake_warehouse="slow")),
                (alter_configs, replaced(retention_ms="7")),
            ]
            for handler, request in refused:
                [answer] = (await call(handler, request, broker)).responses
                assert answer.error_code == ErrorCode.INVALID_CONFIG
                assert "this topic has lake.warehouse=fast" in answer.error_message
                made = broker.topics.get("t")
                assert made is not None
                assert made.configs == {key: "fast"}
            allowed = [
                (incremental_alter_configs, edited((Operation.SET, "fast"))),
                (incremental_alter_configs, edited()),
                (alter_configs, replaced(lake_warehouse="fast", retention_ms="7")),
            ]
            for handler, request in allowed:
                [answer] = (await call(handler, request, broker)).responses
                assert answer.error_code == 0

    def replaced(**configs: str) -> AlterConfigsRequest:
        return asked(Kind.TOPIC, "t", validate_only=validate_only, **configs)

    run(scenario)
