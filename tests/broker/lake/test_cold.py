"""Old offsets come back as they were produced, whatever the owner does meanwhile."""

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from broker.lake import cold
from broker.lake import table as table_module
from broker.lake.lake import Lake
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import read_header
from lakehouse.files import chunks, large_groups
from lakehouse.files.reader import Found, TableReader
from lakehouse.log.delta_log import Snapshot, load
from tests.support.batches import Record, read_batch
from tests.support.lake_following import TOPIC, following, version_of
from tests.support.patience import IDLE_S, Patience
from tests.support.placed import Row, table_of
from tests.support.spelling import OTHERWISE, overwrite
from tests.support.tables import FIRST_MS, Writer, headers, rows, value

MEBI = 1 << 20


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(str(tmp_path))


def expected(offset: int) -> Record:
    return Record(
        key=None if offset % 3 == 0 else f"key-{offset}".encode(),
        value=value(offset),
        headers=tuple((h["key"].encode(), h["value"]) for h in headers(offset) or ()),
        timestamp=FIRST_MS + offset,
        offset=offset,
        timestamp_type=offset % 2,
    )


async def consume(
    lake: Lake, offset: int, bytes_max: int = MEBI, partition: int = 0
) -> AsyncIterator[Record]:
    """All records from ``offset`` to the table's end, as a consumer asks for them."""
    end = lake.table_end(TOPIC.number, partition)
    while offset < end:
        read = await lake.read(TOPIC.number, partition, offset, bytes_max)
        assert read.next_offset > offset
        for batch in read.batches:
            for record in read_batch(batch):
                if record.offset >= offset:
                    yield record
        offset = read.next_offset
    assert offset == end


async def all_of(lake: Lake, offset: int = 0, **options: int) -> list[Record]:
    return [record async for record in consume(lake, offset, **options)]


async def until(lake: Lake, version: int) -> None:
    while version_of(lake, TOPIC.number) < version:
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("bytes_max", [1, 2_000, MEBI])
def test_records_come_back_as_they_were(writer: Writer, bytes_max: int) -> None:
    writer.add(0, 0, 250, missing=range(30, 40))
    writer.add(0, 250, 300)
    present = [*range(30), *range(40, 300)]

    async def check() -> None:
        async with following(writer) as lake:
            records = await all_of(lake, bytes_max=bytes_max)
            assert [sans_type(r) for r in records] == [
                sans_type(expected(o)) for o in present
            ]

    asyncio.run(check())


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("names", [*([one] for one in OTHERWISE), OTHERWISE.keys()])
def test_records_come_back_as_they_were_from_columns_that_are_called_otherwise(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, names: list[str], *, is_large: bool
) -> None:
    """Names have no case in Delta: Spark reads all of such a table."""
    writer.add(0, 0, 250)
    writer.add(1, 0, 20)
    if is_large:
        monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10)

    async def read() -> list[object]:
        async with following(writer) as lake:
            await until(lake, load(writer.path).version)
            return [
                await all_of(lake),
                await all_of(lake, partition=1),
                (await lake.find_timestamp(TOPIC.number, 0, FIRST_MS + 17, 0)).found,
                (await lake.max_timestamp(TOPIC.number, 0, 0)).found,
            ]

    before = asyncio.run(read())
    overwrite(writer.path, names)
    assert asyncio.run(read()) == before


@pytest.mark.parametrize("is_large", [False, True])
def test_a_row_whose_owner_took_its_timestamp_is_a_record_without_one(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    writer.add(0, 0, 250)
    table = deltalake.DeltaTable(writer.path)
    table.update(updates={"timestamp": "NULL"}, predicate="offset = 17")
    if is_large:
        monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10)
    absent = replace(expected(17), timestamp=-1)

    async def check() -> None:
        async with following(writer) as lake:
            records = await all_of(lake)
            assert [sans_type(r) for r in records] == [
                sans_type(absent if o == 17 else expected(o)) for o in range(250)
            ]
            first = await lake.find_timestamp(TOPIC.number, 0, FIRST_MS + 17, 0)
            assert first.found == (18, FIRST_MS + 18)
            newest = await lake.max_timestamp(TOPIC.number, 0, 0)
            assert newest.found == (249, FIRST_MS + 249)

    asyncio.run(check())


def test_the_newest_time_behind_rows_without_one_may_be_older_than_theirs(
    writer: Writer,
) -> None:
    """No row that is asked for is as late as the least time of the first file."""
    writer.add(0, 0, 10)
    table = deltalake.DeltaTable(writer.path)
    later = "timestamp + INTERVAL '1' HOUR"
    table.update(updates={"timestamp": later}, predicate="offset < 5")
    table.update(updates={"timestamp": "NULL"}, predicate="offset >= 5")
    writer.add(0, 10, 20)

    async def check() -> None:
        async with following(writer) as lake:
            newest = await lake.max_timestamp(TOPIC.number, 0, 5)
            assert newest.found == (19, FIRST_MS + 19)

    asyncio.run(check())


def test_a_repeated_row_with_a_later_time_does_not_hide_the_newest(
    writer: Writer,
) -> None:
    """What an owner inserted once more, an hour later, is no record."""
    writer.add(0, 0, 20)
    again = rows(0, range(5, 10))
    at = again.schema.get_field_index("timestamp")
    kind = again.schema.field(at).type
    later = [(FIRST_MS + 3_600_000 + o) * 1000 for o in range(5, 10)]
    again = again.set_column(at, again.schema.field(at), pa.array(later, kind))
    deltalake.write_deltalake(writer.path, again, mode="append")
    writer.add(0, 20, 30)

    async def check() -> None:
        async with following(writer) as lake:
            newest = await lake.max_timestamp(TOPIC.number, 0, 0)
            assert newest.found == (29, FIRST_MS + 29)

    asyncio.run(check())


@pytest.mark.parametrize("bytes_max", [1, MEBI])
def test_a_chunk_that_is_too_large_comes_in_parts(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    """An owner's OPTIMIZE put many large rows behind each other among small ones."""
    monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10)
    monkeypatch.setattr(large_groups, "SLAB_BYTES", 5_000)
    split: list[int] = []
    original = TableReader.split

    def watched(self: TableReader, found: Found, fits: int) -> None:
        split.append(fits)
        original(self, found, fits)

    monkeypatch.setattr(TableReader, "split", watched)
    shuffled = random.Random(5).sample(range(300), 300)
    writer.add(0, 0, 300, order=shuffled, row_group_rows=300)

    async def check() -> None:
        async with following(writer) as lake:
            for start in (170, 0):
                records = await all_of(lake, start, bytes_max=bytes_max)
                assert [sans_type(r) for r in records] == [
                    sans_type(expected(o)) for o in range(start, 300)
                ]

    asyncio.run(check())
    assert 3 < len(split) == len(set(split))


def sans_type(record: Record) -> tuple[object, ...]:
    return (
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type,
    )


def test_an_answer_begins_with_the_batch_that_holds_the_offset(writer: Writer) -> None:
    writer.add(0, 0, 250)

    async def check() -> None:
        async with following(writer) as lake:
            read = await lake.read(TOPIC.number, 0, 170, 1)
            assert len(read.batches) == 1
            header = read_header(read.batches[0])
            assert header.base_offset <= 170 <= header.last_offset
            assert read.next_offset == header.last_offset + 1

    asyncio.run(check())


def test_an_answer_ends_before_a_chunk_of_which_no_batch_fits_any_more(
    writer: Writer,
) -> None:
    writer.add(0, 0, 100)
    writer.add(0, 100, 200)

    async def check() -> None:
        async with following(writer) as lake:
            whole = await lake.read(TOPIC.number, 0, 0, MEBI)
            ends = [read_header(batch).last_offset + 1 for batch in whole.batches]
            count = ends.index(100) + 1
            room = sum(map(len, whole.batches[:count])) + 1
            read = await lake.read(TOPIC.number, 0, 0, room)
            assert (len(read.batches), read.next_offset) == (count, 100)

    asyncio.run(check())


def test_a_gap_at_the_end_leads_to_the_tables_end(writer: Writer) -> None:
    writer.add(0, 0, 100)
    writer.add(0, 100, 200, missing=range(100, 200))

    async def check() -> None:
        async with following(writer) as lake:
            assert await lake.read(TOPIC.number, 0, 100, MEBI) == ([], 200)
            assert lake.table_end(TOPIC.number, 0) == 200

    asyncio.run(check())


def test_rows_that_the_owner_deletes_disappear(writer: Writer) -> None:
    writer.add(0, 0, 300)

    async def check() -> None:
        async with following(writer) as lake:
            assert len(await all_of(lake)) == 300
            deltalake.DeltaTable(writer.path).delete("offset >= 10 AND offset < 290")
            await until(lake, 2)
            offsets = [record.offset for record in await all_of(lake)]
            assert offsets == [*range(10), *range(290, 300)]
            assert lake.table_end(TOPIC.number, 0) == 300

    asyncio.run(check())


def test_a_file_vacuumed_under_a_reader_is_found_elsewhere(writer: Writer) -> None:
    """The broker has not noticed yet: it looks again, and serves the same."""
    for n in range(3):
        writer.add(0, n * 100, n * 100 + 100)

    async def check() -> None:
        async with following(writer) as lake:
            lake._follower.close()  # from here on it follows only when it must
            table = deltalake.DeltaTable(writer.path)
            table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
            assert version_of(lake, TOPIC.number) == 3
            assert [r.offset for r in await all_of(lake)] == list(range(300))
            assert version_of(lake, TOPIC.number) > 3

    asyncio.run(check())


def test_a_table_whose_files_are_gone_is_a_storage_error(writer: Writer) -> None:
    writer.add(0, 0, 100)

    async def check() -> None:
        async with following(writer) as lake:
            table = deltalake.DeltaTable(writer.path)
            for uri in table.file_uris():
                os.unlink(uri)
            with pytest.raises(KafkaError) as caught:
                await lake.read(TOPIC.number, 0, 0, MEBI)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(check())


def test_who_asks_for_a_file_that_is_gone_does_not_load_the_table_each_time(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer asks ten times a second, on threads that serve all tables."""
    writer.add(0, 0, 100)
    loads: list[str] = []

    def counted(path: str, **options: bool) -> Snapshot:
        loads.append(path)
        return load(path, **options)

    async def check() -> None:
        async with following(writer) as lake:
            lake._follower.close()
            (uri,) = deltalake.DeltaTable(writer.path).file_uris()
            away = Path(writer.path, "away")
            Path(uri).rename(away)
            monkeypatch.setattr(table_module, "load", counted)
            for _ in range(10):
                with pytest.raises(KafkaError):
                    await lake.read(TOPIC.number, 0, 0, MEBI)
            assert len(loads) == 1
            away.rename(uri)
            assert len(await all_of(lake)) == 100

    asyncio.run(check())


def test_damaged_bytes_are_a_storage_error_and_not_served(writer: Writer) -> None:
    writer.add(0, 0, 100)
    (uri,) = deltalake.DeltaTable(writer.path).file_uris()
    with open(uri, "r+b") as file:
        file.seek(4)
        file.write(os.urandom(400))

    async def check() -> None:
        async with following(writer) as lake:
            with pytest.raises(KafkaError) as caught:
                await lake.read(TOPIC.number, 0, 0, MEBI)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(check())


LARGE: list[Row] = [
    (n, FIRST_MS + n, 0, None if n % 2 else b"k%d" % n, os.urandom(3_000))
    for n in range(1_200)
]
"""Three pages of values."""


@pytest.mark.parametrize("compacted", [False, True])
def test_files_of_our_own_are_read_without_arrow(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, *, compacted: bool
) -> None:
    by_arrow = []
    read = TableReader.read
    monkeypatch.setattr(
        TableReader, "read", lambda *a, **k: by_arrow.append(1) or read(*a, **k)
    )
    wanted = LARGE[::7] if compacted else LARGE
    writer.add_like_ours(table_of(wanted))

    async def check() -> None:
        async with following(writer) as lake:
            records = [
                (r.offset, r.timestamp, r.timestamp_type, r.key, r.value)
                for r in await all_of(lake)
            ]
            assert records == wanted
            assert not by_arrow

    asyncio.run(check())


def test_a_damaged_page_at_the_end_of_one_is_a_storage_error(writer: Writer) -> None:
    """Batches of the pages before it were made by then, and are not served."""
    path = writer.add_like_ours(table_of(LARGE))
    with open(path, "r+b") as file:
        at = file.read().index(LARGE[-1][4])  # type: ignore[arg-type]
        file.seek(at + 2_000)
        file.write(b"damage")

    async def check() -> None:
        async with following(writer) as lake:
            with pytest.raises(KafkaError, match="CRC checksum verification failed"):
                await lake.read(TOPIC.number, 0, 0, MEBI)

    asyncio.run(check())


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_stands_before_a_file_that_cannot_be_read_is_served(
    writer: Writer, is_gone: bool
) -> None:
    writer.add(0, 0, 20)
    writer.add(0, 20, 40)
    files = load(writer.path).files.values()
    [path] = [one.relative_path for one in files if one.first_offset == 20]
    bad = Path(writer.path, path)
    if is_gone:
        bad.unlink()
    else:
        bad.write_bytes(bytes(bad.stat().st_size))

    async def check() -> None:
        async with following(writer) as lake:
            read = await lake.read(TOPIC.number, 0, 0, MEBI)
            records = [r for batch in read.batches for r in read_batch(batch)]
            assert [r.offset for r in records] == list(range(20))
            assert read.next_offset == 20
            with pytest.raises(KafkaError) as caught:
                await lake.read(TOPIC.number, 0, 20, MEBI)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(check())


def test_a_protocol_that_cannot_be_read_is_told(writer: Writer) -> None:
    writer.add(0, 0, 100)
    features = '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
    features += '"readerFeatures":["somethingNew"],"writerFeatures":["somethingNew"]}}'

    async def check() -> None:
        async with following(writer) as lake:
            entry = os.path.join(writer.path, "_delta_log", f"{2:020d}.json")
            with open(entry, "w") as file:
                file.write(features)
            await until(lake, 2)
            with pytest.raises(KafkaError, match="somethingNew") as caught:
                await lake.read(TOPIC.number, 0, 0, MEBI)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert lake.table_end(TOPIC.number, 0) == 100

    asyncio.run(check())


@pytest.mark.parametrize("name", ["key", "value"])
def test_a_table_without_a_column_of_ours_gives_no_tombstones(
    writer: Writer, name: str
) -> None:
    """Its owner renamed it, and turned the mapping of names off again; or left it out
    of what he wrote over the table."""
    writer.add(0, 0, 100)

    async def check() -> None:
        async with following(writer) as lake:
            left = deltalake.DeltaTable(writer.path).to_pyarrow_table()
            deltalake.write_deltalake(
                writer.path, left.drop_columns([name]), mode="overwrite",
                schema_mode="overwrite", partition_by=["partition"],
            )  # fmt: skip
            await until(lake, 2)
            with pytest.raises(KafkaError, match=f"column {name} is missing") as caught:
                await lake.read(TOPIC.number, 0, 0, MEBI)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            deltalake.DeltaTable(writer.path).restore(1)
            await until(lake, 3)
            assert len(await all_of(lake)) == 100

    asyncio.run(check())


def test_deletion_vectors_are_told(writer: Writer) -> None:
    writer.add(0, 0, 100)
    vector = '{"add":{"path":"x.parquet","partitionValues":{"partition":"0"},"size":1,'
    vector += '"modificationTime":1,"dataChange":true,"deletionVector":{"storageType":'
    vector += '"u","pathOrInlineDv":"a","sizeInBytes":1,"cardinality":1}}}'

    async def check() -> None:
        async with following(writer) as lake:
            entry = os.path.join(writer.path, "_delta_log", f"{2:020d}.json")
            with open(entry, "w") as file:
                file.write(vector)
            await until(lake, 2)
            with pytest.raises(KafkaError, match="deletion vector"):
                await lake.read(TOPIC.number, 0, 0, MEBI)

    asyncio.run(check())


def test_the_cache_stays_within_its_bound(writer: Writer) -> None:
    writer.add(0, 0, 5000)

    async def check() -> None:
        async with following(writer, cold_cache_bytes=40_000) as lake:
            assert len(await all_of(lake, bytes_max=1)) == 5000
            assert lake._cold._cache.size_bytes <= 40_000

    asyncio.run(check())


def test_a_chunk_counts_with_the_whole_buffer_that_it_was_put_into(
    writer: Writer,
) -> None:
    """A buffer that is used again may be nearly twice as large as the chunk."""
    for partition, count in enumerate((5000, 3000, 3000)):
        writer.add(partition, 0, count, row_group_rows=count)

    async def check() -> None:
        async with following(writer, cold_cache_bytes=1) as lake:
            sizes = []
            for partition in range(3):  # the first makes room for the third
                read = await lake.read(TOPIC.number, partition, 0, 1)
                ((_, kept),) = lake._cold._cache._kept.items()
                sizes.append((sum(map(len, kept.batches)), kept.size_bytes))
                del read, kept
            (_, first), (second, _), (third, counted) = sizes
            assert second == third < first
            assert counted == first == lake._cold._cache.size_bytes

    asyncio.run(check())


def test_many_consumers_read_side_by_side(writer: Writer) -> None:
    writer.add(0, 0, 1000)
    writer.add(1, 0, 400)

    async def check() -> None:
        async with following(writer) as lake:
            results = await asyncio.gather(
                *(
                    all_of(lake, offset, bytes_max=3000)
                    for offset in range(0, 1000, 50)
                ),
                all_of(lake, partition=1),
            )
            for start, records in zip(range(0, 1000, 50), results, strict=False):
                assert [r.offset for r in records] == list(range(start, 1000))
            assert len(results[-1]) == 400

    asyncio.run(check())


@contextmanager
def busy(lake: Lake) -> Iterator[None]:
    """Each thread that could answer has something else to do."""
    gate = threading.Event()
    for _ in range(lake._cold._pool._max_workers):
        lake._cold._pool.submit(gate.wait)
    try:
        yield
    finally:
        gate.set()


async def ahead(lake: Lake) -> None:
    """Return when all that is coming is made."""
    patience = Patience()
    while lake._cold._ahead:
        assert patience.lasts()
        await asyncio.sleep(0.005)


def test_what_is_made_ahead_is_answered_at_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "CROSS_BELOW_BYTES", 1)
    writer.add(0, 0, 1000)  # ten chunks

    async def check() -> None:
        async with following(writer) as lake:
            first = await lake.read(TOPIC.number, 0, 0, 10_000)
            await ahead(lake)
            with busy(lake):
                read = lake.read(TOPIC.number, 0, first.next_offset, 20_000)
                second = await asyncio.wait_for(read, IDLE_S)
                await ahead(lake)
            found = [r for read in (first, second) for b in read.batches
                     for r in read_batch(b)]  # fmt: skip
            assert found == [expected(o) for o in range(second.next_offset)]
            assert second.next_offset > first.next_offset + 100  # two chunks, in part
            rest = await all_of(lake, second.next_offset)
            assert rest == [expected(o) for o in range(second.next_offset, 1000)]

    asyncio.run(check())


def test_what_was_made_of_an_earlier_version_is_not_given(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "CROSS_BELOW_BYTES", 1)
    writer.add(0, 0, 1000)

    async def check() -> None:
        async with following(writer) as lake:
            first = await lake.read(TOPIC.number, 0, 0, 10_000)
            await ahead(lake)
            gone = first.next_offset + 7
            deltalake.DeltaTable(writer.path).delete(f"offset = {gone}")
            await until(lake, 2)
            found = [record.offset for record in await all_of(lake, first.next_offset)]
            assert found == [o for o in range(first.next_offset, 1000) if o != gone]

    asyncio.run(check())


def test_two_consumers_of_a_partition_do_not_get_each_others_records(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "CROSS_BELOW_BYTES", 1)
    writer.add(0, 0, 1000)

    async def check() -> None:
        async with following(writer) as lake:
            both = await asyncio.gather(
                all_of(lake, 0, bytes_max=9_000), all_of(lake, 333, bytes_max=4_000)
            )
            for start, records in zip((0, 333), both, strict=True):
                assert records == [expected(o) for o in range(start, 1000)]

    asyncio.run(check())


def test_timestamps_are_found(writer: Writer) -> None:
    writer.add(0, 0, 250)
    writer.add(0, 250, 300)

    async def check() -> None:
        async with following(writer) as lake:
            number = TOPIC.number
            at = FIRST_MS + 260
            assert await lake.find_timestamp(number, 0, at) == ((260, at), 300)
            assert await lake.find_timestamp(number, 0, FIRST_MS + 300) == (None, 300)
            assert await lake.max_timestamp(number, 0) == ((299, FIRST_MS + 299), 300)
            assert await lake.max_timestamp(number, 0, 300) == (None, 300)
            assert await lake.max_timestamp(number, 1) == (None, 0)

    asyncio.run(check())


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_an_owner_adds_above_the_end_are_no_records(
    writer: Writer, merged: bool
) -> None:
    writer.add(0, 0, 100)
    added = rows(0, [105, 10**12])
    deltalake.write_deltalake(writer.path, added, mode="append")
    if merged:
        deltalake.DeltaTable(writer.path).optimize.compact()

    async def scenario() -> None:
        async with following(writer) as lake:
            read = await lake.read(TOPIC.number, 0, 90, MEBI)
            offsets = [r.offset for batch in read.batches for r in read_batch(batch)]
            assert (offsets[-1], read.next_offset) == (99, 100)
            newest = await lake.max_timestamp(TOPIC.number, 0)
            assert newest == ((99, FIRST_MS + 99), 100)
            later = await lake.find_timestamp(TOPIC.number, 0, FIRST_MS + 100)
            assert later == (None, 100)
            assert await all_of(lake) == [expected(offset) for offset in range(100)]
            deltalake.DeltaTable(writer.path).delete("offset = 105")
            writer.add(0, 100, 110)
            while lake.table_end(TOPIC.number, 0) < 110:
                await asyncio.sleep(0.01)
            found = [record.offset for record in await all_of(lake)]
            assert found == list(range(110))

    asyncio.run(scenario())


def test_what_is_kept_for_readers_goes_when_they_have_gone(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "REST_S", 0.0)
    writer.add(0, 0, 1000)

    async def check() -> None:
        async with following(writer) as lake:
            assert len(await all_of(lake)) == 1000
            patience = Patience()
            while lake._cold._cache.size_bytes or lake._cold._reader._plans:
                assert patience.lasts(lake._cold._cache.size_bytes)
                await asyncio.sleep(0.01)
            assert await all_of(lake, 990) == [expected(o) for o in range(990, 1000)]

    asyncio.run(check())


def test_nothing_goes_while_somebody_reads(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "REST_S", 1e6)
    writer.add(0, 0, 1000)

    async def check() -> None:
        async with following(writer) as lake:
            await all_of(lake)
            loop = asyncio.get_running_loop()
            kept = lake._cold._cache.size_bytes
            lake._cold._rest_if_over(loop)  # the timer of the first read
            lake._cold._pool.submit(lambda: None).result()
            assert lake._cold._cache.size_bytes >= kept > 0

    asyncio.run(check())


def test_what_the_first_read_needs_is_loaded_before_it(writer: Writer) -> None:
    writer.add(0, 0, 100)

    async def check() -> None:
        async with following(writer) as lake:
            lake._cold._warm()  # as at the start, where nobody would hear of a fault
            assert lake._cold._reader is not None

    asyncio.run(check())


def test_what_consumers_read_is_counted(writer: Writer) -> None:
    writer.add(0, 0, 250)

    async def check() -> None:
        async with following(writer) as lake:
            assert sum(lake.cold_figures().times.buckets) == 0
            assert lake.cold_figures().cache_bytes == 0
            first = await lake.read(TOPIC.number, 0, 0, MEBI)
            again = await lake.read(TOPIC.number, 0, 0, MEBI)
            found = lake.cold_figures()
            assert sum(found.times.buckets) == 2
            assert found.times.total > 0
            size = sum(map(len, (*first.batches, *again.batches)))
            assert found.bytes_out == size > 0
            assert found.cache_hits == found.cache_misses > 0
            assert found.cache_bytes >= found.bytes_out // 2

    asyncio.run(check())
