"""What is said of topics: of those that got something, and how large all are."""

from pathlib import Path

from broker.runtime.process.topic_rows import sizes, traffic
from tests.support.fetching import SessionClient
from tests.support.rig import batch_of, create, fetch_one, produce_one, rig, run
from tests.support.transacting import marker, record


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


def test_what_a_session_is_given_is_counted_by_topic_as_in_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "orders")
            client = SessionClient(broker, "orders")
            await client.fetch((0, 0))
            batch = batch_of(b"a")
            await produce_one(broker, "orders", batch)
            for count in (1, 2):  # it has not gone on
                assert list(await client.fetch()) == [0]
                [row] = traffic(broker.topics, broker.partitions)
                assert row["bytes_out"] == count * len(batch)
                assert row["bytes_out"] == broker.counters.bytes_out

    run(scenario)


def test_ends_of_transactions_count_as_records_as_they_do_in_kafka(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "orders")
            partition = broker.partitions.named("orders", 0)
            for producer in (1, 2):
                await record(partition, producer, 0, b"a", b"b")
                await marker(partition, producer, commit=producer == 1)
            [row] = traffic(broker.topics, broker.partitions)
            assert row["records_in"] == broker.counters.records_in == 6

    run(scenario)
