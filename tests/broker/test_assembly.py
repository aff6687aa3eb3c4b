"""The parts of a broker, wired once: on a disk of memory, and when a start fails."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.assembly import Surroundings, assemble, bring_maintenance, listen
from broker.protocol.messages.metadata import MetadataRequest
from broker.runtime.services import Broker
from broker.settings import Settings, WalSettings
from broker.topics.topic import Topic
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    Tables,
    batch_of,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
    values_in,
)
from tests.support.timers import ManualTimers
from tests.support.transacting import marker, record
from tests.support.wire import Wire


def surroundings(files: ForgetfulFiles, tables: Tables) -> Surroundings:
    clock = ManualClock()
    return Surroundings(
        asyncio.get_running_loop(), files, clock, ManualTimers(clock), lambda _: tables
    )


def settings(path: Path) -> Settings:
    return Settings(data_dir=path, wal=WalSettings(segment_bytes=1 << 20))


def test_what_was_acknowledged_is_there_in_the_next_broker_on_the_same_disk(tmp_path):
    async def story() -> None:
        files = ForgetfulFiles()
        async with AsyncExitStack() as ends:
            around = surroundings(files, Tables())
            broker = assemble(settings(tmp_path), around, ends).broker
            await create(broker, "flights")
            assert (
                await produce_one(broker, "flights", batch_of(b"a"))
            ).base_offset == 0
        async with AsyncExitStack() as ends:
            around = surroundings(files, Tables())
            broker = assemble(settings(tmp_path), around, ends).broker
            assert values_in(await fetch_one(broker, "flights", 0)) == [b"a"]

    run(story)


def test_clients_come_when_it_listens_and_not_after_its_end(tmp_path):
    async def story() -> None:
        async with AsyncExitStack() as ends:
            around = surroundings(ForgetfulFiles(), Tables())
            assembly = assemble(settings(tmp_path), around, ends)
            bring_maintenance(assembly, ends)
            address, _ = await listen(assembly, "127.0.0.1", 0, ends)
            wire = await Wire.open(address)
            answer = await wire.ask(MetadataRequest(topics=[]), 12)
            assert answer.cluster_id == assembly.broker.cluster_id
        assert await wire.closed()
        wire.close()
        with pytest.raises(OSError):
            await Wire.open(address)

    run(story)


def test_a_start_that_fails_half_way_closes_what_it_opened(tmp_path):
    class Unreadable(Tables):
        def start(self, topics: object) -> None:
            raise OSError("the tables are gone")

    async def story() -> None:
        files = ForgetfulFiles()
        with pytest.raises(OSError, match="gone"):
            async with AsyncExitStack() as ends:
                assemble(settings(tmp_path), surroundings(files, Unreadable()), ends)
        assert not files.open_handles

    run(story)


class Loaded(Tables):
    """Each start loads the tables anew, and does not know what their owners did."""

    def start(self, topics: Iterable[Topic]) -> None:
        self.loaded = [topic.number for topic in topics]

    def take_changed(self) -> list[int]:
        numbers, self.loaded = self.loaded, []
        return numbers


async def sealed(broker: Broker) -> int:
    """The segment that was begun before is sealed; its number."""
    count = len(broker.wal.segments())
    broker.wal.roll()
    while not broker.wal.segments()[count - 1].sealed:
        await asyncio.sleep(0.001)
    return broker.wal.segments()[count - 1].sequence


async def aborted(broker: Broker, tables: Loaded) -> None:
    """The table has all, a segment that is left what was aborted, and the one before it
    was released."""
    partition = await create(broker, "flights")
    await produce_one(broker, "flights", batch_of(b"a"))
    first = await sealed(broker)
    await record(partition, 1, 0, b"aborted")
    await marker(partition, 1, commit=False)
    await sealed(broker)
    tables.ends[partition.key] = partition.high_watermark
    tables.batches[partition.key] = [batch_of(b"a")]
    broker.partitions.read_from_table(partition.number)
    await broker.partitions.segment_released(first)
    broker.wal.release(first)


def test_what_a_table_has_no_more_is_served_by_no_start(tmp_path):
    """What was aborted in a segment is forgotten with those before it, once its
    partition is read from the table; a start finds the segment again."""

    async def story() -> None:
        tables = Loaded()
        async with rig(tmp_path, tables=tables) as broker:
            await aborted(broker, tables)
        for _start in range(2):
            async with rig(tmp_path, tables=tables) as broker:
                found = await fetch_one(broker, "flights", 1, isolation_level=1)
                assert values_in(found) == []

    run(story)


def test_what_was_aborted_is_known_to_starts_that_cannot_read_the_table(
    tmp_path: Path,
) -> None:
    """Nobody knows where the table ends, and the segments that are left are read."""

    async def story() -> None:
        tables = Loaded()
        async with rig(tmp_path, tables=tables) as broker:
            await aborted(broker, tables)
        async with rig(tmp_path, tables=tables):
            pass
        tables.ends.clear()
        for _start in range(2):
            async with rig(tmp_path, tables=tables) as broker:
                assert (await fetch_one(broker, "flights", 0)).error_code != 0
                found = await fetch_one(broker, "flights", 1, isolation_level=1)
                assert b"aborted" in values_in(found)
                assert found.aborted_transactions
                [told] = found.aborted_transactions
                assert told.first_offset == 1

    run(story)


def test_what_was_aborted_is_forgotten_with_the_last_segment_that_has_it(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        tables = Loaded()
        async with rig(tmp_path, tables=tables) as broker:
            await aborted(broker, tables)
            [partition] = broker.partitions
            assert partition.log.transactions.outlasts_release
            for segment in [one for one in broker.wal.segments() if one.sealed]:
                await broker.partitions.segment_released(segment.sequence)
                broker.wal.release(segment.sequence)
            assert not partition.log.transactions.outlasts_release

    run(story)
