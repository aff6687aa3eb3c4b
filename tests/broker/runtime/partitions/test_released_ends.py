"""Where released records end is noted before they go, and what a start found."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.produce import produce
from broker.catalog import released_ends, topics
from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.partitions.coverage import missing
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.partitions.released_ends import ReleasedEnds
from broker.runtime.services import Broker
from tests.support.batches import Record, make_batch
from tests.support.old_catalogs import take_back
from tests.support.rig import (
    Tables,
    batch_of,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)


def noted(broker: Broker) -> dict[tuple[int, int], int]:
    """What is durable."""
    return broker.catalog.read(released_ends.load)


async def in_table_alone(broker: Broker, tables: Tables, count: int) -> int:
    """A topic's number; so many records of its partition 1 were released."""
    partition = await create(broker, "t", 3)
    number = partition.number
    for _ in range(count):
        await produce_one(broker, "t", batch_of(b"x"), partition=1)
    released = broker.partitions.named("t", 1)
    tables.compact(broker, released)
    broker.wal.roll()
    await create(broker, "later")
    await produce_one(broker, "later", batch_of(b"x"))
    broker.partitions.checkpoint()
    broker.wal.release(broker.wal.segments()[0].sequence)
    return number


async def released_by_an_older_version(data_dir: Path, tables: Tables) -> int:
    """The same of three records, and of a catalog that says nothing of it."""
    async with rig(data_dir, tables=tables) as broker:
        number = await in_table_alone(broker, tables, 3)
    with Catalog.open(data_dir / "catalog.db") as catalog:
        catalog.change(lambda c: take_back(c, 4))
    return number


def test_what_an_older_version_released_is_noted_at_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        number = await released_by_an_older_version(tmp_path, tables)
        async with rig(tmp_path, tables=tables) as broker:
            await broker.partitions.released_ends.note({})
            assert noted(broker) == {(number, 1): 3}
        tables.ends.clear()
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            answer = await produce_one(broker, "t", batch_of(b"x"), partition=1)
            assert (answer.error_code, answer.base_offset) == (0, 3)
            answer = await produce_one(broker, "t", batch_of(b"x"), partition=0)
            assert (answer.error_code, answer.base_offset) == (0, 0)

    run(scenario)


def test_what_a_start_has_found_of_a_topic_is_forgotten_with_it(
    tmp_path: Path,
) -> None:
    """A number is never given again: nobody would look at its rows, or delete them."""

    async def scenario() -> None:
        tables = Tables()
        number = await released_by_an_older_version(tmp_path, tables)
        async with rig(tmp_path, tables=tables) as broker:
            await broker.topics.delete(broker.topics.named("t"))
            assert noted(broker) == {(number, 1): 3}, "it can be revived"
            broker.catalog.change(lambda c: topics.forget(c, number))
            await broker.partitions.released_ends.note({(number + 1, 0): 1})
            assert noted(broker) == {(number + 1, 0): 1}

    run(scenario)


def test_what_is_noted_is_not_given_again_where_the_checkpoint_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a kill before the next one, if then the segment and the table are lost."""

    async def scenario() -> None:
        tables, write = Tables(), Partitions.checkpoint
        for asked in ("checkpoint", "begin_checkpoint"):
            monkeypatch.setattr(Partitions, asked, lambda _: None)
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"old"))
            write(broker.partitions)
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"new"))
            lost = broker.wal.segments()[-1].path
            tables.compact(broker, partition)
            await broker.partitions.released_ends.note({partition.key: 2})
        monkeypatch.undo()
        lost.unlink()
        async with rig(tmp_path) as broker:
            answer = await produce_one(broker, "t", batch_of(b"x"))
            assert (answer.error_code, answer.base_offset) == (0, 2)
            found = await fetch_one(broker, "t", 1)
            assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        async with rig(tmp_path, tables=tables) as broker:
            found = await fetch_one(broker, "t", 1)
            assert values_in(found) == [b"new"]
            assert values_in(await fetch_one(broker, "t", 2)) == [b"x"]

    run(scenario)


def test_a_start_writes_nothing_that_is_noted(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            number = await in_table_alone(broker, tables, 3)
            await broker.partitions.released_ends.note({(number, 1): 3})
        async with rig(tmp_path, tables=tables) as broker:
            await broker.partitions.released_ends.note({})
            assert broker.catalog.commits == 0

    run(scenario)


def test_what_records_were_deleted_of_is_told_by_its_log_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"x"))
            await broker.partitions.raise_log_starts({partition: 1})
            broker.partitions.released_ends.note_found([partition])
            await broker.partitions.released_ends.note({})
            assert noted(broker) == {}

    run(scenario)


def test_what_a_table_has_of_segments_is_not_noted_before_it_is_durable(
    tmp_path: Path,
) -> None:
    """Two starts without a checkpoint, and between them the table loses its last commit
    with the power: its records are in segments still."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for value in (b"a", b"b", b"c"):
                await produce_one(broker, "t", batch_of(value))
            tables.compact(broker, partition)
        for end in (3, 0):
            tables.ends[partition.key] = end
            (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
            async with rig(tmp_path, tables=tables) as broker:
                await broker.partitions.released_ends.note({})
                assert noted(broker) == {}
                found = values_in(await fetch_one(broker, "t", 0))
                assert found == [b"a", b"b", b"c"]

    run(scenario)


async def one_refused(broker: Broker) -> Partition:
    """A new partition with "a", "b" and "c"; behind "a" one was refused."""

    def keyed(value: bytes) -> bytearray:
        return make_batch([Record(key=b"k", value=value)])

    partition = await create(broker, "t", cleanup_policy="compact")
    await produce_one(broker, "t", keyed(b"a"))
    refused, kept = (
        start(produce, produce_request("t", (0, batch)), broker, 9)
        for batch in (batch_of(b"refused"), keyed(b"b"))
    )
    await asyncio.gather(refused, kept)
    await produce_one(broker, "t", keyed(b"c"))
    assert partition.log.holes == [(1, 2)]
    return partition


@pytest.mark.parametrize("is_lost_twice", [False, True])
def test_what_lies_below_a_refused_batch_is_not_noted_before_it_is_durable(
    tmp_path: Path, is_lost_twice: bool
) -> None:
    """As above: a gap below the end of a table is not always what was released."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await one_refused(broker)
        for end in (3, 0):
            tables.ends[partition.key] = end
            if is_lost_twice or not end:
                (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
            async with rig(tmp_path, tables=tables) as broker:
                await broker.partitions.released_ends.note({})
                assert noted(broker) == {}
        async with rig(tmp_path, tables=tables) as broker:
            found = values_in(await fetch_one(broker, "t", 0))
            assert found == [b"a", b"b", b"c"]

    run(scenario)


def test_what_was_refused_where_the_log_starts_is_neither_released_nor_missing(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await one_refused(broker)
            await broker.partitions.raise_log_starts({partition: 1})
        for is_lost in (False, True):
            if is_lost:
                (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
            async with rig(tmp_path) as broker:
                await broker.partitions.released_ends.note({})
                assert noted(broker) == {}
                assert missing(broker.partitions, broker.lake) == []

    run(scenario)


def test_what_could_not_be_noted_at_the_start_is_noted_with_the_next_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            number = await in_table_alone(broker, tables, 3)
            ends = ReleasedEnds(broker.catalog)
            raise_to = released_ends.raise_to

            def refused(*_: Any) -> None:
                raise OSError("no space")

            with monkeypatch.context() as patched:
                patched.setattr(released_ends, "raise_to", refused)
                ends.note_found(broker.partitions)
                for _ in range(2):
                    with pytest.raises(KafkaError) as raised:
                        await ends.note({(9, 0): 7})
                    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert noted(broker) == {}
            written: list[Any] = []
            monkeypatch.setattr(
                released_ends, "raise_to",
                lambda c, ends: (written.append(ends), raise_to(c, ends)),
            )  # fmt: skip
            await ends.note({(9, 0): 8, (number, 1): 2})
            assert noted(broker) == {(number, 1): 3, (9, 0): 8}
            await ends.note({(9, 0): 9})
            assert written == [{(number, 1): 3, (9, 0): 8}, {(9, 0): 9}]

    run(scenario)
