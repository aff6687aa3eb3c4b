"""What is said of topics: of those that got something, and how large all are."""

from pathlib import Path

from broker.runtime.process.topic_rows import sizes, traffic
from tests.support.rig import batch_of, create, fetch_one, produce_one, rig, run


def test_a_topic_is_named_with_what_it_got_and_gave(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "orders", partitions=2)
            await create(broker, "idle")
            batch = batch_of(b"a", b"b")
            await produce_one(broker, "orders", batch)
            size = len(batch)
            row = {"topic": "orders", "records_in": 2, "bytes_in": size, "bytes_out": 0}
            assert list(traffic(broker.topics, broker.partitions)) == [row]
            await fetch_one(broker, "orders", 0)
            row["bytes_out"] = size
            assert list(traffic(broker.topics, broker.partitions)) == [row]

    run(scenario)


def test_each_partition_has_its_size_in_the_log_and_in_its_table(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            topic = await create(broker, "orders", partitions=2)
            batch = batch_of(b"a")
            await produce_one(broker, "orders", batch)
            broker.lake.batches[topic.number, 1] = [b"in a table"]  # type: ignore[attr-defined]
            found = {
                (row["topic"], row["partition"]): row["bytes"]
                for row in sizes(broker.topics, broker.partitions)
            }
            assert found["orders", 0] == len(batch)
            assert found["orders", 1] == len(b"in a table")

    run(scenario)
