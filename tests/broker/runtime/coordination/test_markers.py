"""Markers of a transaction: all of them, in turns, again if need be."""

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from broker.log.partition import PartitionLog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.markers import Marker, read_marker
from broker.runtime.coordination.markers import PART, RETRY_MS, Markers
from broker.runtime.services import Broker
from broker.transactions.commands import Owed
from tests.broker.log.headers import header
from tests.support.clock import ManualClock
from tests.support.rig import (
    batch_of,
    batches_in,
    create,
    fetch_one,
    produce_one,
    rig,
    run,
)
from tests.support.timers import ManualTimers

MANY = 2 * PART + 1


class Refusing:
    """The partitions, of which some have no marker taken the first times."""

    def __init__(self, broker: Broker, refused: dict[int, int]) -> None:
        self.broker = broker
        self.refused = refused
        self.asked: list[int] = []

    def get(self, number: int, index: int) -> Any:
        self.asked.append(index)
        if self.refused.get(index, 0) == 0:
            return self.broker.partitions.get(number, index)
        self.refused[index] -= 1
        return self

    def append_marker(self, *given: Any, **_: Any) -> None:
        reply = given[-1]
        reply(-1, -1, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))


class Awaiting(Refusing):
    """The partitions, of which one waits for its table at first."""

    def get(self, number: int, index: int) -> Any:
        found = super().get(number, index)
        return None if found is self else found

    def is_awaited(self, number: int, index: int) -> bool:
        return self.broker.partitions.get(number, index) is not None


def markers_of(broker: Broker, logs: Any = None) -> tuple[Markers, ManualTimers]:
    timers = ManualTimers(ManualClock())
    logs = logs or broker.partitions
    return Markers(logs, broker.groups.offsets, timers, broker.clock), timers


def owed_to(*parts: Any, producer: int = 1, epoch: int = 0, version: int = 1) -> Owed:
    groups = frozenset(part for part in parts if isinstance(part, str))
    keys = frozenset(part for part in parts if not isinstance(part, str))
    return Owed(1, producer, epoch, True, keys, groups, version)


def test_each_partition_gets_one_marker_however_many_there_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            first = await create(broker, "t", partitions=MANY)
            markers, _ = markers_of(broker)
            done = asyncio.Event()
            keys = [(first.number, index) for index in range(MANY)]
            markers.write(owed_to(*keys, "g"), done.set)
            assert not done.is_set()
            await done.wait()
            ends = {broker.partitions.named("t", n).high_watermark for n in range(MANY)}
            assert ends == {1}
            (batch,) = batches_in(await fetch_one(broker, "t", 0))
            assert read_marker(batch) == Marker(True)

    run(scenario)


def test_nothing_owed_is_done_later_and_not_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            markers, _ = markers_of(broker)
            done = asyncio.Event()
            markers.write(owed_to(), done.set)
            assert not done.is_set()
            await done.wait()

    run(scenario)


def test_a_partition_that_waits_for_its_table_gets_its_marker_later(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            first = await create(broker, "t")
            markers, timers = markers_of(broker, Awaiting(broker, {0: 1}))
            done = asyncio.Event()
            markers.write(owed_to(first.key, (first.number, 7)), done.set)
            while len(timers) == 0:
                await asyncio.sleep(0.001)
            assert not done.is_set()
            timers.advance(RETRY_MS)
            await done.wait()
            assert first.high_watermark == 1

    run(scenario)


def test_what_was_refused_is_asked_for_again_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            first = await create(broker, "t", partitions=3)
            logs = Refusing(broker, {1: 2})
            markers, timers = markers_of(broker, logs)
            done = asyncio.Event()
            owed = owed_to(*((first.number, index) for index in range(3)))
            markers.write(owed, done.set)
            for tries in (1, 2):
                while len(timers) == 0:
                    await asyncio.sleep(0.001)
                assert logs.asked.count(1) == tries
                assert not done.is_set()
                timers.advance(RETRY_MS)
            await done.wait()
            assert sorted(logs.asked) == [0, 1, 1, 1, 2]

    run(scenario)


def test_a_partition_that_is_gone_or_has_a_newer_epoch_needs_none(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            first = await create(broker, "t", partitions=2)
            await produce_one(broker, "t", batch_of(b"x", producer=(1, 5, 0)))
            broker.partitions.named("t", 1).deleted = True
            markers, _ = markers_of(broker)
            done = asyncio.Event()
            gone = (999, 0), (first.number, 99)
            keys = (first.number, 0), (first.number, 1)
            markers.write(owed_to(*gone, *keys), done.set)
            await done.wait()
            assert first.high_watermark == 1

    run(scenario)


class Opened:
    """Partitions in which producer 1 has begun a transaction with epoch 5."""

    def __init__(self) -> None:
        self.log = PartitionLog()
        begun = header(producer=1, epoch=5, transactional=True)
        self.log.commit_transactional(self.log.admit(begun, 0), begun, 0, 1)

    def get(self, _number: int, _index: int) -> Any:
        return self


@pytest.mark.parametrize(
    ("version", "epoch", "fences", "is_lacking"),
    [
        (1, 4, False, False),
        (1, 5, False, True),
        (1, 5, True, False),
        (1, 6, False, False),
        (1, 6, True, True),
        (1, 7, True, False),
        (2, 5, True, False),
        (2, 6, True, True),
        (2, 6, False, True),
        (2, 7, True, False),
    ],
)
def test_a_marker_is_lacking_where_that_very_transaction_is_open(
    version: int, epoch: int, fences: bool, is_lacking: bool
) -> None:
    """A marker of version 2 has the epoch behind that of its records, and so has that
    of an abort which fences in version 1."""
    logs: Any = Opened()
    none: Any = None
    markers = Markers(logs, none, none, none)
    owed = owed_to((7, 0), epoch=epoch, version=version)._replace(fences=fences)
    assert markers.lacking(owed) == ({(7, 0)} if is_lacking else set())
    assert not markers.lacking(owed_to((7, 0), producer=2, epoch=epoch))


def test_what_was_open_before_a_partition_became_part_lacks_another_marker() -> None:
    logs: Any = Opened()
    none: Any = None
    markers = Markers(logs, none, none, none)
    owed = owed_to((7, 0), epoch=5)
    for start, is_lacking in ((0, True), (1, False)):
        found = markers.lacking(owed._replace(starts=(((7, 0), start),)))
        assert found == ({(7, 0)} if is_lacking else set())


def test_nothing_is_asked_for_after_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            first = await create(broker, "t")
            logs = Refusing(broker, {0: 99})
            markers, timers = markers_of(broker, logs)
            markers.write(owed_to((first.number, 0)), list)
            while len(timers) == 0:
                await asyncio.sleep(0.001)
            markers.close()
            assert len(timers) == 0
            asked = len(logs.asked)
            markers.write(owed_to((first.number, 0)), list)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(logs.asked) == asked

    run(scenario)


def test_a_retry_that_has_run_is_not_kept(tmp_path: Path) -> None:
    """A refusal may last for hours, with a retry each second."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            markers, timers = markers_of(broker)
            fired: list[int] = []
            for count in range(3):
                markers.again(lambda count=count: fired.append(count))  # type: ignore[misc]
            retries = [weakref.ref(timer) for timer in timers.waiting()]
            timers.advance(RETRY_MS)
            assert fired == [0, 1, 2]
            gc.collect()
            assert [retry() for retry in retries] == [None] * 3
            markers.close()

    run(scenario)
