"""The parts of a broker, wired once: on a disk of memory, and when a start fails."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.assembly import Surroundings, assemble, bring_maintenance, listen
from broker.protocol.messages.metadata import MetadataRequest
from broker.settings import Settings, WalSettings
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    Tables,
    batch_of,
    create,
    fetch_one,
    produce_one,
    run,
    values_in,
)
from tests.support.timers import ManualTimers
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
