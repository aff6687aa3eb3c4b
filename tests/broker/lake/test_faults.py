"""Where a table could not be read is told until it can be read again."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from broker.lake import cold
from broker.lake.faults import FAULTS_MAX, Fault, Faults
from broker.lake.lake import Lake
from broker.lake.table import TopicTable
from broker.protocol.errors import KafkaError
from tests.support.lake_following import TOPIC, following
from tests.support.patience import IDLE_S, STUCK_S, Patience
from tests.support.tables import TOPIC_ID, Writer

MEBI = 1 << 20


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 20)
    writer.add(0, 20, 40)
    return writer


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "LOOK_S", 0.0)


def second_file(writer: Writer) -> Path:
    uris = deltalake.DeltaTable(writer.path).file_uris()
    return max(map(Path, uris), key=lambda path: path.stat().st_mtime_ns)


def lose(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


async def read_all(lake: Lake) -> None:
    """As a consumer does that tries again what fails."""
    offset = 0
    while offset < lake.table_end(TOPIC.number, 0):
        offset = (await lake.read(TOPIC.number, 0, offset, MEBI)).next_offset


async def until_well(lake: Lake) -> None:
    patience = Patience()
    while lake.problems():
        assert patience.lasts(), lake.problems()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("spoil", [lose, damage, replace_by_fifo])
def test_a_file_that_cannot_be_read_is_told_until_it_is_back(
    writer: Writer, spoil: Callable[[Path], None]
) -> None:
    file = second_file(writer)
    whole = file.read_bytes()

    async def story() -> None:
        async with following(writer) as lake:
            spoil(file)
            for _ in range(3):
                with pytest.raises(KafkaError):
                    await read_all(lake)
            [sentence] = lake.problems()
            assert f"the table {writer.path} cannot be read from offset 20" in sentence
            assert str(file) in sentence
            assert lake.unserved_topics() == {TOPIC.number: sentence}
            assert lake.unreadable_topics() == {}  # the rest of it is served
            await asyncio.sleep(0.05)
            assert lake.problems() == [sentence]
            file.unlink(missing_ok=True)
            file.write_bytes(whole)
            await until_well(lake)
            assert lake.unserved_topics() == {}
            await read_all(lake)

    asyncio.run(story())


def test_what_its_owner_took_out_of_the_log_is_told_no_more(writer: Writer) -> None:
    async def story() -> None:
        async with following(writer) as lake:
            lose(second_file(writer))
            with pytest.raises(KafkaError):
                await read_all(lake)
            assert lake.problems()
            deltalake.DeltaTable(writer.path).repair()
            await until_well(lake)

    asyncio.run(story())


def test_a_look_that_takes_long_holds_up_one_thread_of_readers(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may try a bad sector again for longer than lies between two looks."""
    goes_on, looks, collect = threading.Event(), [], cold.ColdReader._collect

    def slow(self: cold.ColdReader, *places: Any, bytes_max: int) -> cold.ColdRead:
        looks.append(places)
        assert goes_on.wait(STUCK_S)
        return collect(self, *places, bytes_max=bytes_max)

    monkeypatch.setattr(cold.ColdReader, "_collect", slow)
    monkeypatch.setattr(cold.ColdReader, "_read", collect)

    async def story() -> None:
        async with following(writer, read_threads=2) as lake:
            file = second_file(writer)
            whole = file.read_bytes()
            lose(file)
            with pytest.raises(KafkaError):
                await read_all(lake)
            try:
                for _ in range(5):
                    assert lake.problems()
                async with asyncio.timeout(IDLE_S):
                    assert (await lake.read(TOPIC.number, 0, 0, MEBI)).batches
            finally:
                goes_on.set()
            assert len(looks) == 1
            file.write_bytes(whole)
            await until_well(lake)

    asyncio.run(story())


def test_it_is_tried_again_after_some_seconds_and_not_whenever_it_is_told(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told each second, and a damaged row group takes a while to read."""
    looks, look = [], cold.ColdReader._look_again

    def counted(self: cold.ColdReader) -> None:
        looks.append(self)
        look(self)

    monkeypatch.setattr(cold.ColdReader, "_look_again", counted)
    monkeypatch.setattr(cold, "LOOK_S", STUCK_S)

    async def story() -> None:
        async with following(writer) as lake:
            lose(second_file(writer))
            with pytest.raises(KafkaError):
                await read_all(lake)
            for _ in range(20):
                assert lake.problems()
                await asyncio.sleep(0.01)
            assert len(looks) <= 1

    asyncio.run(story())


def test_of_a_topic_that_is_deleted_nothing_is_told(writer: Writer) -> None:
    async def story() -> None:
        async with following(writer) as lake:
            lose(second_file(writer))
            with pytest.raises(KafkaError):
                await read_all(lake)
            lake.topic_deleted(TOPIC)
            assert lake.unserved_topics() == {}
            assert lake.problems() == []

    asyncio.run(story())


def test_each_reason_is_kept_once_and_not_too_many() -> None:
    faults, table = Faults(), TopicTable(TOPIC_ID, "/t")
    assert not faults
    for n in range(FAULTS_MAX + 5):
        for offset in (3, 7):
            faults.add(Fault(table, 0, offset, f"file {n}"))
    found = faults.all()
    assert [one.why for one in found] == [f"file {n}" for n in range(FAULTS_MAX)]
    assert {one.offset for one in found} == {3}
    faults.drop(found[0])
    faults.drop(found[0])
    assert len(faults.all()) == FAULTS_MAX - 1
