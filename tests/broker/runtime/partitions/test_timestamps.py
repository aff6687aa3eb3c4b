"""Searching by time while segments are let go: nothing falls between two places."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.protocol.errors import KafkaError
from broker.runtime.partitions.timestamps import Found
from broker.runtime.services import Broker
from tests.support.batches import Record, make_batch
from tests.support.rig import Tables, create, produce_one, rig, run

T = 1_700_000_000_000


async def produce(broker: Broker, *stamps: int) -> None:
    for stamp in stamps:
        batch = make_batch([Record(value=b"v", timestamp=T + stamp)])
        assert (await produce_one(broker, "t", batch)).error_code == 0


class Hurried(Tables):
    """Everything is compacted and let go just while the table is searched."""

    def __init__(self) -> None:
        super().__init__()
        self.broker: Broker | None = None

    async def find_timestamp(self, *place: int):  # type: ignore[no-untyped-def]
        searched = await super().find_timestamp(*place)
        self._hurry()
        return searched

    async def max_timestamp(self, *place: int):  # type: ignore[no-untyped-def]
        searched = await super().max_timestamp(*place)
        self._hurry()
        return searched

    def _hurry(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            self.compact(broker, broker.partitions.named("t", 0))


def test_a_release_during_the_search_hides_no_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Hurried()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await produce(broker, 0, 10)
            tables.compact(broker, partition)
            await produce(broker, 20, 30)
            times = broker.partitions.times
            tables.broker = broker
            assert await times.first_at(partition, T + 20) == Found(2, T + 20)
            await produce(broker, 40)
            tables.broker = broker
            assert await times.latest(partition) == Found(4, T + 40)
            assert await times.first_at(partition, T + 41) is None

    run(scenario)


def test_a_segment_that_goes_before_its_batch_is_read_is_looked_for_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables, hot_bytes=0) as broker:
            partition = await create(broker, "t")
            await produce(broker, 0, 30, 20)
            broker.wal.roll()
            await produce(broker, 10)  # the window keeps the segment that is written
            read = broker.wal.read

            def released_before(spans):  # type: ignore[no-untyped-def]
                monkeypatch.setattr(broker.wal, "read", read)
                tables.compact(broker, partition)
                broker.wal.release(broker.wal.segments()[0].sequence)
                return read(spans)

            times = broker.partitions.times
            for search, found in (
                (times.first_at(partition, T + 15), Found(1, T + 30)),
                (times.latest(partition), Found(1, T + 30)),
            ):
                if not tables.batches:
                    monkeypatch.setattr(broker.wal, "read", released_before)
                assert await search == found

    run(scenario)


def test_records_below_the_log_start_are_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            records = [Record(value=b"v", timestamp=T + at) for at in (9, 1)]
            assert (await produce_one(broker, "t", make_batch(records))).error_code == 0
            await produce(broker, 5)
            await broker.partitions.raise_log_starts({partition: 1})
            times = broker.partitions.times
            assert await times.first_at(partition, T + 3) == Found(2, T + 5)

    run(scenario)


def test_what_nobody_has_is_an_error_and_not_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await produce(broker, 0, 1)
            partition.log.index.trim_below(1)
            times = broker.partitions.times
            with pytest.raises(KafkaError, match="offset 0 of partition 0"):
                await times.first_at(partition, T)
            with pytest.raises(KafkaError, match="offset 0 of partition 0"):
                await times.latest(partition)

    run(scenario)


def test_what_a_search_needs_is_loaded_by_warming() -> None:
    program = (
        "import sys; from broker.runtime.partitions import timestamps;"
        "assert 'broker.records.columns' not in sys.modules;"
        "timestamps.warm(); known = set(sys.modules);"
        "from broker.records.batch import empty_batches;"
        "timestamps._record_at(empty_batches(0, 1)[0], 0, timestamps._newest);"
        "assert set(sys.modules) == known, set(sys.modules) - known"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_newest_record_is_found_wherever_it_lies(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            times = broker.partitions.times
            await produce(broker, 0, 30, 20, 30)
            assert await times.latest(partition) == Found(1, T + 30)
            tables.compact(broker, partition)
            await produce(broker, 10)
            assert await times.latest(partition) == Found(1, T + 30)
            await produce(broker, 40)
            assert await times.latest(partition) == Found(5, T + 40)

    run(scenario)


@pytest.mark.parametrize(
    ("first", "later", "found"),
    [
        ((800, 1000, 800, 900, 800), 700, Found(3, T + 900)),
        ((800, 1000, 800, 900, 800), 950, Found(5, T + 950)),
        ((800, 1000, 700, 900, 900), 900, Found(3, T + 900)),
        ((800, 900, 700, 900, 800), 900, Found(3, T + 900)),
    ],
)
def test_the_newest_record_below_the_log_start_hides_none_behind_it(
    tmp_path: Path, first: tuple[int, ...], later: int, found: Found
) -> None:
    """The greatest time of its batch is none of a record that is left."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            records = [Record(value=b"v", timestamp=T + at) for at in first]
            assert (await produce_one(broker, "t", make_batch(records))).error_code == 0
            await produce(broker, later)
            await broker.partitions.raise_log_starts({partition: 2})
            times = broker.partitions.times
            assert await times.latest(partition) == found
            tables.compact(broker, partition)
            assert await times.latest(partition) == found

    run(scenario)
