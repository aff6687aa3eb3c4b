"""CreatePartitions: growth only, and a result for each topic asked for."""

from pathlib import Path

from broker.apis.create_partitions import create_partitions
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.support.rig import NODE_ID, batch_of, call, create, produce_one, rig, run


def test_new_partitions_are_served_and_survive(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            request = CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)])
            response = await call(create_partitions, request, broker)
            (result,) = response.results
            assert (result.name, result.error_code) == ("t", 0)
            answer = await produce_one(broker, "t", batch_of(b"a"), partition=2)
            assert answer.error_code == 0
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 2).high_watermark == 1

    run(scenario)


def test_each_topic_has_a_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path, partitions_max=8) as broker:
            await create(broker, "t", partitions=3)
            await create(broker, "twice")
            own, other = (
                CreatePartitionsAssignment([node]) for node in (NODE_ID, NODE_ID + 1)
            )
            cases = [
                ("t", 3, None, ErrorCode.INVALID_PARTITIONS),
                ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
                ("t", 0, None, ErrorCode.INVALID_PARTITIONS),
                ("t", 2_000_000_000, None, ErrorCode.POLICY_VIOLATION),
                ("t", 8, None, ErrorCode.POLICY_VIOLATION),
                ("nowhere", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ("t", 5, [own], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                ("t", 4, [other], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                ("t", 4, [own], 0),
            ]
            for name, count, assignments, code in cases:
                topic = CreatePartitionsTopic(name, count, assignments)
                request = CreatePartitionsRequest([topic])
                response = await call(create_partitions, request, broker)
                (result,) = response.results
                assert (result.name, result.error_code) == (name, code)
                assert bool(result.error_message) == bool(code)
            twice = [CreatePartitionsTopic("twice", 3, None)] * 2
            response = await call(
                create_partitions, CreatePartitionsRequest(twice), broker
            )
            (result,) = response.results
            assert result.error_code == ErrorCode.INVALID_REQUEST

    run(scenario)


def test_validate_only_adds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            topic = CreatePartitionsTopic("t", 3, None)
            request = CreatePartitionsRequest([topic], validate_only=True)
            response = await call(create_partitions, request, broker)
            assert response.results[0].error_code == 0
            found = broker.topics.get("t")
            assert found is not None
            assert found.partitions == 1

    run(scenario)
