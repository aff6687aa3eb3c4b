"""Reading: a naive reader and the real one agree, wherever the batches lie."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from broker.records.batch import read_header
from broker.runtime.partitions.reads import (
    COLD_BYTES_MIN,
    TURN_PLACES,
    Place,
    Reader,
    coalesced,
)
from tests.support.rig import (
    Tables,
    batch_of,
    carry_sealed,
    create,
    produce_one,
    rig,
    run,
)


def test_small_pieces_are_joined_and_large_ones_are_not() -> None:
    small: list[bytes | bytearray | memoryview] = [b"a" * 10, b"b" * 20]
    assert coalesced(small, 30) == [b"a" * 10 + b"b" * 20]
    large: list[bytes | bytearray | memoryview] = [b"a" * 5000, b"b" * 5000]
    assert coalesced(large, 10_000) is large
    assert coalesced(small[:1], 10) == [b"a" * 10]


def naive(
    partitions: list[list[bytes]], offsets: list[int], limits: list[int], room: int
) -> list[list[bytes]]:
    """What a fetch may give of each partition, said as simply as it can be."""
    answer: list[list[bytes]] = []
    nothing_yet = True
    for batches, offset, limit in zip(partitions, offsets, limits, strict=True):
        part: list[bytes] = []
        left = min(limit, room)
        for batch in batches:
            if read_header(batch).last_offset < offset:
                continue
            if len(batch) > left and not (nothing_yet and not part):
                break
            part.append(batch)
            left -= len(batch)
        room -= sum(map(len, part))
        nothing_yet = nothing_yet and not part
        answer.append(part)
    return answer


sizes = st.lists(st.integers(1, 5_000), min_size=1, max_size=6)


@hypothesis_settings(max_examples=15, deadline=None)
@given(
    contents=st.lists(sizes, min_size=1, max_size=3),
    cold=st.lists(st.booleans(), min_size=3, max_size=3),
    offsets=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    limits=st.lists(st.integers(0, 12_000), min_size=3, max_size=3),
    room=st.integers(0, 20_000),
)
@example(  # the first gives a batch that it had not reserved; the second is to feel it
    contents=[[1], [1]],
    cold=[True, False, False],
    offsets=[0, 0, 0],
    limits=[0, 69, 0],
    room=70,
)
@pytest.mark.parametrize("hot_bytes", [0, 8 << 20])
def test_reading_agrees_with_a_naive_reader(
    tmp_path_factory: pytest.TempPathFactory,
    hot_bytes: int,
    contents: list[list[int]],
    cold: list[bool],
    offsets: list[int],
    limits: list[int],
    room: int,
) -> None:
    async def scenario() -> None:
        tables = Tables()
        path = tmp_path_factory.mktemp("reads")
        async with rig(path, tables=tables, hot_bytes=hot_bytes) as broker:
            places, batches = [], []
            await create(broker, "t", partitions=len(contents))
            for index, values in enumerate(contents):
                partition = broker.partitions.named("t", index)
                for size in values:
                    records = batch_of(b"v" * size)
                    await produce_one(broker, "t", records, partition=index)
                spans = partition.spans(0, 1 << 20, True)
                assert spans is not None
                batches.append(broker.wal.read(spans))
                offset = min(offsets[index], len(values))
                places.append(Place(partition, offset, limits[index]))
                if cold[index]:
                    tables.compact(broker, partition)
            reading = broker.partitions.reader.read(places, room)
            if reading is not None:
                await reading
            count = len(contents)
            wanted = naive(
                batches, [place.offset for place in places], limits[:count], room
            )
            given = [b"".join(place.buffers) for place in places]
            if not any(cold[:count]):
                assert given == [b"".join(part) for part in wanted]
            _keeps_the_promises(places, given, wanted, limits, room)

    run(scenario)


def _keeps_the_promises(
    places: list[Place],
    given: list[bytes],
    wanted: list[list[bytes]],
    limits: list[int],
    room: int,
) -> None:
    """Reserving for cold reads may give less, never more, and never nothing."""
    whole = [b"".join(part) for part in wanted]
    assert bool(any(given)) == bool(any(whole))
    first = True
    for place, data, limit in zip(places, given, limits, strict=False):
        assert place.error is None
        if not first:
            assert len(data) <= min(limit, max(room, 0))
        if data:
            assert read_header(data).last_offset >= place.offset
            first = False
        room -= len(data)


def test_a_read_that_comes_late_finds_what_was_carried_meanwhile(tmp_path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "stuck")
            for _ in range(4):
                for _ in range(3):
                    await produce_one(broker, "stuck", batch_of(b"v" * 500))
                broker.wal.roll()
            place = Place(partition, 0, 1 << 20)
            place.spans = partition.spans(0, 1 << 20, at_least_one=True)
            before = broker.wal.read(place.spans)
            carried = await carry_sealed(broker, {})
            await broker.partitions.segments_carried(carried)
            broker.wal.release_replaced(carried.sequences)
            await broker.partitions.reader._read_segments(place, partition)
            assert list(place.buffers) == before
            assert len(before) == 12

    run(scenario)


def test_a_read_that_comes_after_a_release_finds_as_much_in_the_table(tmp_path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for _ in range(8):
                await produce_one(broker, "t", batch_of(b"v" * (COLD_BYTES_MIN // 2)))
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"in the next segment"))
            place = Place(partition, 0, 1 << 20)
            place.spans = partition.spans(0, 1 << 20, at_least_one=True)[:8]
            before = broker.wal.read(place.spans)
            tables.compact(broker, partition)
            broker.wal.release(min(one.sequence for one in broker.wal.segments()))
            await broker.partitions.reader._read_segments(place, partition)
            assert tables.reads == 1
            assert list(place.buffers) == before

    run(scenario)


def test_a_read_of_many_partitions_gives_way_after_so_many() -> None:
    nothing: Any = None
    places = [Place(None, 0, 1) for _ in range(2 * TURN_PLACES + 1)]
    steps = Reader(nothing, nothing).read_in_turns(places, 1)
    assert sum(1 for _ in steps) == 2
