"""What was refused, and what may be lost: a start has to tell one from the other."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.apis.produce import produce
from broker.catalog import released_ends
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.partitions.coverage import Missing, missing
from broker.runtime.partitions.partition import Partition
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.services import Broker
from broker.storage.layout import HEADER_BLOCK_BYTES
from tests.support.batches import Record, make_batch
from tests.support.rig import (
    Tables,
    Unread,
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
from tests.support.transacting import marker, record


def keyed(value: bytes) -> bytearray:
    """A batch that a compacted topic takes; it refuses those without a key."""
    return make_batch([Record(key=b"k", value=value)])


def test_what_was_refused_amid_what_others_hold_is_no_loss_without_the_table(
    tmp_path: Path,
) -> None:
    """A later segment was released; the first one is read again at a start that has the
    checkpoint and not the table."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", cleanup_policy="compact")
            await produce_one(broker, "t", keyed(b"a"))
            for value in (b"b", b"c"):
                asked = [
                    start(produce, produce_request("t", (0, batch)), broker, 9)
                    for batch in (batch_of(b"refused"), keyed(value))
                ]
                await asyncio.gather(*asked)
            broker.wal.roll()
            await produce_one(broker, "t", keyed(b"d"))
            tables.ends[partition.key] = 6
            broker.wal.roll()
            await produce_one(broker, "t", keyed(b"e"))
            released = broker.wal.segments()[1]
            broker.partitions.checkpoint()
            await broker.partitions.released_ends.note({partition.key: 6})
            await broker.partitions.segment_released(released.sequence)
            broker.wal.release(released.sequence)
        released.path.unlink()  # as if it was used again
        tables.ends.clear()
        async with rig(tmp_path, tables=tables) as broker:
            found = broker.partitions.named("t", 0)
            assert missing([found], broker.lake) == [Missing(found, 5, 6)]
            assert values_in(await fetch_one(broker, "t", 1)) == [b"b", b"c"]

    run(scenario)


async def refused_first(broker: Broker) -> Partition:
    """A new partition of which the very first batch was refused, and one was kept."""
    partition = await create(broker, "t", cleanup_policy="compact")
    asked = [
        start(produce, produce_request("t", (0, batch)), broker, 9)
        for batch in (batch_of(b"refused"), keyed(b"a"))
    ]
    await asyncio.gather(*asked)
    await produce_one(broker, "t", keyed(b"b"))
    assert partition.log.holes == [(0, 1)]
    return partition


def test_what_was_refused_first_of_all_is_no_loss_where_the_checkpoint_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the next start, be there a checkpoint of this one or not."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await refused_first(broker)
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        for is_early in (True, False, False):
            with monkeypatch.context() as patched:
                if is_early:
                    patched.setattr(Partitions, "checkpoint", lambda _: None)
                    patched.setattr(Partitions, "begin_checkpoint", lambda _: None)
                async with rig(tmp_path) as broker:
                    found = broker.partitions.named("t", 0)
                    assert found.log.holes == [(0, 1)]
                    assert missing([found], broker.lake) == []
                    over = await fetch_one(broker, "t", 0)  # an empty batch
                    assert (over.error_code, values_in(over)) == (0, [])
                    assert values_in(await fetch_one(broker, "t", 1)) == [b"a", b"b"]

    run(scenario)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_may_be_lost_before_the_first_batch_was_not_refused(
    tmp_path: Path, is_damaged: bool
) -> None:
    """The catalog does not say that the first segment was released, if it was."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await produce_one(broker, "t", batch_of(b"a" * 50))
            first = broker.wal.segments()[0].path
            if not is_damaged:
                broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"b"))
        if is_damaged:
            data = bytearray(first.read_bytes())
            at = data.index(b"a" * 50)
            data[at - 110 : at + 50] = b"x" * 160
            first.write_bytes(data)
        else:
            first.unlink()  # as if it was used again
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path) as broker:
            log = broker.partitions.named("t", 0).log
            assert (log.holes, log.index.first_offset) == ([], 1)

    run(scenario)


@pytest.mark.parametrize("how", ["in a table", "unread", "noted"])
def test_what_a_table_had_before_the_log_was_not_refused(
    tmp_path: Path, how: str
) -> None:
    """A new log went on where the table ended. Then the checkpoint is lost, and the
    table is there, or cannot be read; or is gone, and its end was noted."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            key = (await create(broker, "t")).key
        tables.ends[key] = 5
        shutil.rmtree(tmp_path / "wal")
        async with rig(tmp_path, tables=tables) as broker:
            answer = await produce_one(broker, "t", batch_of(b"b"))
            assert answer.base_offset == 5
            await broker.partitions.released_ends.note({})
            if how != "noted":
                broker.catalog.change(lambda c: released_ends.forget(c, key[0]))
        tables.why = "the table cannot be read" if how == "unread" else None
        if how == "noted":
            tables.ends.clear()
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            log = broker.partitions.named("t", 0).log
            assert (log.holes, log.index.first_offset) == ([], 5)

    run(scenario)


def cut_behind_its_first_sector(path: Path) -> None:
    os.truncate(path, HEADER_BLOCK_BYTES)


def overwrite_behind_its_first_sector(path: Path) -> None:
    size = path.stat().st_size
    cut_behind_its_first_sector(path)
    os.truncate(path, size)


@pytest.mark.parametrize(
    "lose",
    [Path.unlink, cut_behind_its_first_sector, overwrite_behind_its_first_sector],
    ids=["gone", "cut", "zeros"],
)
def test_behind_a_lost_segment_no_offset_is_given_that_an_unread_table_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None]
) -> None:
    """Of partition 0 the checkpoint knows a part, of 2 nothing; of 1 the newest batch
    lies behind what is lost."""

    async def scenario() -> None:
        tables, write = Unread(), Partitions.checkpoint
        for asked in ("checkpoint", "begin_checkpoint"):
            monkeypatch.setattr(Partitions, asked, lambda _: None)
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t", 3)
            for index in (0, 1):
                batch = batch_of(b"old", producer=(9, 0, 0))
                await produce_one(broker, "t", batch, partition=index)
            write(broker.partitions)
            broker.wal.roll()
            for index in (0, 2):
                await produce_one(broker, "t", batch_of(b"new"), partition=index)
            lost = broker.wal.segments()[-1].path
            for index in (0, 2):
                tables.compact(broker, broker.partitions.named("t", index))
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"new"), partition=1)
        monkeypatch.undo()
        lose(lost)
        tables.why = "the table cannot be read"
        for _ in range(2):
            async with rig(tmp_path, tables=tables) as broker:
                for index in (0, 2):
                    batch = batch_of(b"x")
                    answer = await produce_one(broker, "t", batch, partition=index)
                    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert broker.partitions.named("t", 1).high_watermark == 2
        async with rig(tmp_path, tables=tables) as broker:
            tables.why = None
            for index, end in enumerate((2, 2, 1)):
                assert broker.partitions.named("t", index).high_watermark == end
            retry = batch_of(b"old", producer=(9, 0, 0))
            answer = await produce_one(broker, "t", retry)
            assert (answer.error_code, answer.base_offset) == (0, 0)
            answer = await produce_one(broker, "t", batch_of(b"x"))
            assert (answer.error_code, answer.base_offset) == (0, 2)
            assert values_in(await fetch_one(broker, "t", 1)) == [b"new"]
        async with rig(tmp_path, tables=tables) as broker:
            assert broker.partitions.named("t", 0).high_watermark == 3

    run(scenario)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_was_aborted_is_never_shown_where_its_marker_is_lost(
    tmp_path: Path, is_damaged: bool
) -> None:
    """And the checkpoint with it: the table alone knows what counts, at that start and
    at those that have the checkpoint of this one."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await record(partition, 7, 0, b"aborted")
            broker.wal.roll()
            await marker(partition, 7, False)
            lost = broker.wal.segments()[-1].path
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"plain"))
            tables.ends[partition.key] = 1
        if is_damaged:
            data = bytearray(lost.read_bytes())
            data[4096:8192] = b"x" * 4096
            lost.write_bytes(data)
        else:
            lost.unlink()
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        for _ in range(3):
            async with rig(tmp_path, tables=tables) as broker:
                data = await fetch_one(broker, "t", 0, isolation_level=1)
                assert (data.error_code, values_in(data)) == (0, [])
                found = await fetch_one(broker, "t", 2, isolation_level=1)
                assert values_in(found) == [b"plain"]

    run(scenario)


def test_what_an_owner_changed_is_read_in_the_table_by_a_partition_that_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is told once, as soon as the table can be read, and perhaps before anybody
    asks for the partition."""

    async def scenario() -> None:
        tables, write = Unread(), Partitions.checkpoint
        for asked in ("checkpoint", "begin_checkpoint"):
            monkeypatch.setattr(Partitions, asked, lambda _: None)
        async with rig(tmp_path, tables=tables) as broker:
            key = (await create(broker, "t")).key
            await produce_one(broker, "t", batch_of(b"erased"))
            await produce_one(broker, "t", batch_of(b"kept"))
            write(broker.partitions)
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"lost"))
            lost = broker.wal.segments()[-1].path
            broker.wal.roll()
        monkeypatch.undo()
        lost.unlink()
        tables.why = "the table cannot be read"
        async with rig(tmp_path, tables=tables) as broker:
            with pytest.raises(KafkaError, match="cannot be read"):
                broker.partitions.named("t", 0)
            tables.why, tables.ends[key] = None, 1
            broker.partitions.read_from_table(key[0])
            assert values_in(await fetch_one(broker, "t", 0)) == []
            assert values_in(await fetch_one(broker, "t", 1)) == [b"kept"]

    run(scenario)
