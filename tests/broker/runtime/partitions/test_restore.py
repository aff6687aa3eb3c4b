"""Restoring: everything acknowledged is there again, and retries are still known."""

import asyncio
from pathlib import Path

import pytest

from broker.apis.delete_topics import delete_topics
from broker.apis.fetch import fetch
from broker.apis.produce import produce
from broker.ids import TopicNumber
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import PartitionData
from broker.runtime.partitions.coverage import Missing, missing
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.partitions.waiting_topics import TAKEN_UP_A_TURN
from broker.runtime.services import Broker
from broker.storage.layout import SEAL_AT
from broker.storage.manifest import unpack
from tests.support.batches import Record, make_batch
from tests.support.files import ForgetfulFiles
from tests.support.rig import (
    Tables,
    Unread,
    batch_of,
    batches_in,
    call,
    create,
    fetch_one,
    fetch_request,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)
from tests.support.transacting import marker, record


async def fill(broker: Broker, first: int, count: int) -> None:
    asked = [
        start(
            produce,
            produce_request("t", (0, batch_of(b"%06d" % i, producer=(9, 0, i)))),
            broker,
            9,
        )
        for i in range(first, first + count)
    ]
    await asyncio.gather(*asked)


async def fetched(broker: Broker, partition: int) -> PartitionData:
    """What is answered to a fetch from a partition's first offset."""
    request = fetch_request("t", (partition, 0))
    response = await call(fetch, request, broker, 12)
    found: PartitionData = response.responses[0].partitions[0]
    return found


def test_the_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        for round_number in range(3):
            async with rig(tmp_path) as broker:
                if round_number == 0:
                    await create(broker, "t")
                assert broker.partitions.named("t", 0).high_watermark == (
                    round_number * 40
                )
                await fill(broker, round_number * 40, 40)
                found = values_in(await fetch_one(broker, "t", 0))
                assert found == [b"%06d" % i for i in range((round_number + 1) * 40)]

    run(scenario)


def test_what_nobody_wrote_to_is_not_made_by_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=50)
            await produce_one(broker, "t", batch_of(b"one"), partition=7)
        async with rig(tmp_path) as broker:
            assert [partition.index for partition in broker.partitions] == [7]
            assert broker.partitions.count == 50
            again = await produce_one(broker, "t", batch_of(b"two"), partition=9)
            assert (again.error_code, again.base_offset) == (0, 0)
            assert [partition.index for partition in broker.partitions] == [7, 9]

    run(scenario)


def test_retries_are_known_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await fill(broker, 0, 10)
        async with rig(tmp_path) as broker:
            again = batch_of(b"000007", producer=(9, 0, 7))
            answer = await produce_one(broker, "t", again)
            assert (answer.error_code, answer.base_offset) == (0, 7)
            assert broker.partitions.named("t", 0).high_watermark == 10

    run(scenario)


def test_retries_are_known_when_the_segments_are_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await fill(broker, 0, 10)
            tables.compact(broker, partition)
            broker.wal.roll()
            await create(broker, "later")
            broker.partitions.checkpoint()
            await produce_one(broker, "later", batch_of(b"x"))
            broker.wal.release(broker.wal.segments()[0].sequence)
        async with rig(tmp_path, tables=tables) as broker:
            partition = broker.partitions.named("t", 0)
            assert len(partition.log.index) == 0
            assert partition.high_watermark == 10
            answer = await produce_one(
                broker, "t", batch_of(b"000009", producer=(9, 0, 9))
            )
            assert (answer.error_code, answer.base_offset) == (0, 9)
            assert len(values_in(await fetch_one(broker, "t", 0))) == 10

    run(scenario)


def test_what_a_power_cut_left_is_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            await create(broker, "t")
            await fill(broker, 0, 30)
            broker.partitions.checkpoint()
            await fill(broker, 30, 30)
            cut = files.after_power_cut(lambda _: [])
        async with rig(tmp_path, files=cut) as broker:
            found = values_in(await fetch_one(broker, "t", 0))
            assert found == [b"%06d" % i for i in range(60)]
            retry = batch_of(b"000059", producer=(9, 0, 59))
            assert (await produce_one(broker, "t", retry)).base_offset == 59

    run(scenario)


def test_entries_of_deleted_topics_are_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t")
            await fill(broker, 0, 10)
            await call(delete_topics, DeleteTopicsRequest(topic_names=["t"]), broker, 5)
            await create(broker, "t")
            await fill(broker, 0, 3)
        async with rig(tmp_path) as broker:
            assert broker.partitions.named("t", 0).high_watermark == 3
            assert len(list(broker.partitions)) == 1

    run(scenario)


def test_a_table_ahead_of_the_segments_is_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            tables.ends[partition.key] = 50
        async with rig(tmp_path, tables=tables) as broker:
            partition = broker.partitions.named("t", 0)
            assert (partition.high_watermark, partition.log.next) == (50, 50)

    run(scenario)


def no_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a kill is faster than the checkpoint that a sealed segment asks for."""
    monkeypatch.setattr(Partitions, "begin_checkpoint", lambda _: None)


async def three_segments(path: Path, files: ForgetfulFiles) -> ForgetfulFiles:
    """Ten records in each; as a kill leaves them."""
    async with rig(path, files=files) as broker:
        await create(broker, "t")
        for number in range(3):
            await fill(broker, number * 10, 10)
            broker.wal.roll()
        return files.after_kill()


def file_with(files: ForgetfulFiles, value: bytes) -> Path:
    """The segment file that holds a record of this value."""
    (path,) = [path for path, node in files.names.items() if value in bytes(node.data)]
    return path


def lose(files: ForgetfulFiles, value: bytes) -> None:
    """The file of the segment that holds this value is gone."""
    path = file_with(files, value)
    del files.names[path], files.durable_names[path]


def damage(files: ForgetfulFiles, value: bytes) -> None:
    """One bit of the value flips on the disk."""
    node = files.names[file_with(files, value)]
    node.data[bytes(node.data).index(value)] ^= 1
    node.durable = bytes(node.data)


async def check_around(broker: Broker, first: int, end: int, code: ErrorCode) -> None:
    """All is served but [first, end), and this is an error, whoever asks."""
    for offset in range(30):
        data = await fetch_one(broker, "t", offset)
        assert data.error_code == (code if first <= offset < end else 0), offset
        if not data.error_code:
            until = first if offset < first else 30
            assert values_in(data) == [b"%06d" % i for i in range(offset, until)]
    partition = broker.partitions.named("t", 0)
    times, found = broker.partitions.times, missing([partition], broker.lake)
    assert found == [Missing(partition, first, end)]
    assert (await times.first_at(partition, 0)) is not None
    for search in (times.first_at(partition, 1 << 60), times.latest(partition)):
        with pytest.raises(KafkaError) as refused:
            await search
        assert refused.value.code == code


@pytest.mark.parametrize("checkpointed", [True, False])
def test_what_lies_around_a_lost_segment_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpointed: bool
) -> None:
    if not checkpointed:
        no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = await three_segments(tmp_path, ForgetfulFiles())
        if checkpointed:
            async with rig(tmp_path, files=files):
                """It is written at the latest when it ends."""
            files = files.after_kill()
        lose(files, b"%06d" % 15)
        for _ in range(2):  # a second start finds the same
            async with rig(tmp_path, files=files) as broker:
                await check_around(broker, 10, 20, ErrorCode.KAFKA_STORAGE_ERROR)
            files = files.after_kill()

    run(scenario)


@pytest.mark.parametrize("lost_too", [True, False], ids=["checkpoint too", "alone"])
def test_a_lost_segment_is_none_of_the_refusals_whenever_a_start_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_too: bool
) -> None:
    """Until there is a checkpoint that knows what was lost."""
    no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = await three_segments(tmp_path, ForgetfulFiles())
        lose(files, b"%06d" % 15)
        if lost_too:
            (path,) = [path for path in files.names if path.name == "checkpoint"]
            del files.names[path], files.durable_names[path]
        for is_early in (True, True, False, False):
            with monkeypatch.context() as patched:
                if is_early:
                    patched.setattr(Partitions, "checkpoint", lambda _: None)
                async with rig(tmp_path, files=files) as broker:
                    await check_around(broker, 10, 20, ErrorCode.KAFKA_STORAGE_ERROR)
            files = files.after_kill()

    run(scenario)


def test_a_damaged_batch_behind_the_checkpoint_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = await three_segments(tmp_path, ForgetfulFiles())
        damage(files, b"%06d" % 15)
        async with rig(tmp_path, files=files) as broker:
            await check_around(broker, 15, 16, ErrorCode.CORRUPT_MESSAGE)

    run(scenario)


@pytest.mark.parametrize("is_sealed", [True, False], ids=["footer", "headers"])
@pytest.mark.parametrize("survivors", [9, 0], ids=["some", "none"])
def test_the_offsets_of_damaged_last_batches_are_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survivors: int, is_sealed: bool
) -> None:
    """Consumers have passed them, and the disk may be able to read them again. Of a
    segment without a footer the entries' headers tell them."""
    no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            await create(broker, "t")
            await fill(broker, 0, 10)
            if is_sealed:
                broker.wal.roll()
                while not all(info.sealed for info in broker.wal.segments()):
                    await asyncio.sleep(0.01)
            files = files.after_kill()
        for number in range(survivors, 10):
            damage(files, b"%06d" % number)
        with monkeypatch.context() as patched:
            patched.setattr(Partitions, "checkpoint", lambda _: None)
            async with rig(tmp_path, files=files) as broker:
                partition = broker.partitions.named("t", 0)
                assert missing([partition], broker.lake) == [
                    Missing(partition, survivors, 10)
                ]
                again = await produce_one(broker, "t", batch_of(b"more"))
                assert (again.error_code, again.base_offset) == (0, 10)
                lost = await fetch_one(broker, "t", survivors)
                known = ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR
                assert lost.error_code == known[survivors == 0]
        files = files.after_kill()
        if not is_sealed:  # its damaged places stay what the first start found
            return
        for number in range(survivors, 10):  # the bit flips back
            damage(files, bytes([48 ^ 1]) + b"%05d" % number)
        async with rig(tmp_path, files=files) as broker:
            found = values_in(await fetch_one(broker, "t", 0))
            assert found == [*(b"%06d" % i for i in range(10)), b"more"]

    run(scenario)


async def one_refused_first(broker: Broker) -> None:
    """Of two batches of the new topic ``t``."""
    await create(broker, "t", cleanup_policy="compact")
    both = [batch_of(b"refused"), make_batch([Record(key=b"k", value=b"kept")])]
    asked = [
        start(produce, produce_request("t", (0, batch)), broker, 9) for batch in both
    ]
    codes = [
        (await each).responses[0].partition_responses[0].error_code for each in asked
    ]
    assert codes == [ErrorCode.INVALID_RECORD, 0]


def test_damage_before_the_checkpoint_makes_no_loss_of_what_was_refused_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            await create(broker, "older")
            await produce_one(broker, "older", batch_of(b"in an older segment"))
        files = files.after_kill()
        async with rig(tmp_path, files=files):
            """Its checkpoint is written at the latest when it ends."""
        monkeypatch.setattr(Partitions, "checkpoint", lambda _: None)
        files = files.after_kill()
        async with rig(tmp_path, files=files) as broker:
            await one_refused_first(broker)
            killed = files.after_kill()
        node = killed.names[file_with(killed, b"in an older segment")]
        node.data[SEAL_AT : SEAL_AT + 8] = b"no seal!"
        node.durable = bytes(node.data)
        async with rig(tmp_path, files=killed) as broker:
            assert missing(broker.partitions, broker.lake) == []
            assert values_in(await fetch_one(broker, "t", 1)) == [b"kept"]

    run(scenario)


def test_a_batch_that_was_refused_first_of_all_is_no_loss_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_checkpoints(monkeypatch)

    async def scenario() -> None:
        files = ForgetfulFiles()
        async with rig(tmp_path, files=files) as broker:
            await one_refused_first(broker)
            killed = files.after_kill()
        for _ in range(2):
            async with rig(tmp_path, files=killed) as broker:
                assert broker.partitions.named("t", 0).high_watermark == 2
                assert missing(broker.partitions, broker.lake) == []
                data = await fetch_one(broker, "t", 0)
                assert data.error_code == 0
                assert batches_in(data)
                assert values_in(await fetch_one(broker, "t", 1)) == [b"kept"]
            killed = killed.after_kill()

    run(scenario)


def test_a_topic_that_its_table_alone_knows_waits_until_that_can_be_read(
    tmp_path: Path,
) -> None:
    """As one that was brought back: its offsets would else be given again."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            key = (await create(broker, "t", 2)).key
        tables.ends[key] = 10
        tables.why = "the table cannot be read"
        for _start in range(2):
            async with rig(tmp_path, tables=tables) as broker:
                for index in range(2):
                    answer = await produce_one(
                        broker, "t", batch_of(b"x"), partition=index
                    )
                    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                with pytest.raises(KafkaError, match=tables.why):
                    broker.partitions.named("t", 0)
                with pytest.raises(KafkaError) as raised:
                    broker.partitions.named("t", 2)
                assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                tables.why = None if _start else tables.why
                if tables.why is None:
                    answer = await produce_one(broker, "t", batch_of(b"x"))
                    assert (answer.error_code, answer.base_offset) == (0, 10)
                    assert broker.partitions.named("t", 1).high_watermark == 0

    run(scenario)


def test_without_a_checkpoint_no_offset_is_given_that_a_table_may_have(
    tmp_path: Path,
) -> None:
    """Of one partition records are in the log, of the other in the table alone."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            number = (await create(broker, "t", 2)).number
            for _ in range(3):
                await produce_one(broker, "t", batch_of(b"x"))
        tables.ends[number, 1] = 10
        tables.why = "the table cannot be read"
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        for _start in range(2):  # the second finds what the first wrote
            async with rig(tmp_path, tables=tables) as broker:
                answer = await produce_one(broker, "t", batch_of(b"x"), partition=1)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        async with rig(tmp_path, tables=tables) as broker:
            answer = await produce_one(broker, "t", batch_of(b"x"), partition=1)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.partitions.named("t", 0).high_watermark == 3
            tables.why = None
            answer = await produce_one(broker, "t", batch_of(b"x"), partition=1)
            assert (answer.error_code, answer.base_offset) == (0, 10)
            answer = await produce_one(broker, "t", batch_of(b"x"))
            assert (answer.error_code, answer.base_offset) == (0, 3)

    run(scenario)


def test_what_was_noted_when_it_was_released_needs_no_table_to_be_known(
    tmp_path: Path,
) -> None:
    """Of one partition it was noted, of the other nothing was released: it waits,
    since in a catalog of the version before that need not be noted."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", 2)
            await produce_one(broker, "t", batch_of(b"x"))
            tables.compact(broker, partition)
            await broker.partitions.released_ends.note({partition.key: 1})
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"y"))
        tables.why = "the table cannot be read"
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            answer = await produce_one(broker, "t", batch_of(b"z"))
            assert (answer.error_code, answer.base_offset) == (0, 2)
            unread = await fetched(broker, 0)
            assert unread.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert values_in(await fetch_one(broker, "t", 1)) == [b"y", b"z"]
            found = broker.partitions.named("t", 0)
            assert missing([found], broker.lake) == [Missing(found, 0, 1)]
            answer = await produce_one(broker, "t", batch_of(b"x"), partition=1)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            tables.why = None
            assert values_in(await fetched(broker, 0)) == [b"x"]

    run(scenario)


def test_what_an_undecided_table_may_have_is_not_read_from_segments(
    tmp_path: Path,
) -> None:
    """The marker may be gone with a later segment, before the records are."""

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for value in (b"a", b"b"):
                await produce_one(broker, "t", batch_of(value))
            await broker.partitions.released_ends.note({partition.key: 1})
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            assert (await fetched(broker, 0)).error_code == (
                ErrorCode.KAFKA_STORAGE_ERROR
            )
            assert values_in(await fetch_one(broker, "t", 1)) == [b"b"]

    run(scenario)


def test_a_transaction_that_was_deleted_in_part_is_open_without_a_checkpoint(
    tmp_path: Path,
) -> None:
    """A carry notes what was deleted of a batch, of which the rest is undecided."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await record(partition, 7, 0, b"a", b"b", b"c")
            await broker.partitions.raise_log_starts({partition: 1})
            await broker.partitions.released_ends.note({partition.key: 1})
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path) as broker:
            log = broker.partitions.named("t", 0).log
            assert (log.start, log.stable, log.durable) == (1, 1, 3)

    run(scenario)


def test_a_transaction_that_was_deleted_is_not_open_without_a_checkpoint(
    tmp_path: Path,
) -> None:
    """Its marker was released; of its records an older segment has some still."""

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            partition = await create(broker, "t")
            await record(partition, 7, 0, b"a")
            broker.wal.roll()
            await marker(partition, 7, True)
            released = broker.wal.segments()[-1]
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"b"))
            await broker.partitions.raise_log_starts({partition: 2})
            await broker.partitions.released_ends.note({partition.key: 2})
            broker.partitions.checkpoint()
            broker.wal.release(released.sequence)
        released.path.unlink(missing_ok=True)
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path) as broker:
            log = broker.partitions.named("t", 0).log
            assert (log.start, log.stable, log.durable) == (2, 3, 3)

    run(scenario)


def test_what_was_aborted_is_known_again_after_a_checkpoint_was_lost(
    tmp_path: Path,
) -> None:
    """The start without it leaves all to the table; the next one, which has that of
    this start, reads the same segments again."""

    async def committed(broker: Broker) -> list[tuple[int, int]]:
        """Producers, and first offsets, of what was aborted of what is read."""
        data = await fetch_one(broker, "t", 0, isolation_level=1)
        assert data.error_code == 0
        aborted = data.aborted_transactions or ()
        return [(one.producer_id, one.first_offset) for one in aborted]

    async def scenario() -> None:
        tables = Tables()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            for producer, commit in ((7, False), (8, True)):
                await record(partition, producer, 0, b"x")
                await marker(partition, producer, commit)
            assert await committed(broker) == [(7, 0)]
        tables.ends[partition.key] = 4
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            log = broker.partitions.named("t", 0).log
            assert (log.stable, log.transactions.open) == (4, {})
        async with rig(tmp_path, tables=tables) as broker:
            assert await committed(broker) == [(7, 0)]

    run(scenario)


def test_what_was_aborted_is_never_shown_where_its_marker_was_released(
    tmp_path: Path,
) -> None:
    """Its records are held, by others. A start without a checkpoint leaves them to the
    table, and so do those that have the checkpoint of this one and cannot read it."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t")
            await record(partition, 7, 0, b"aborted")
            broker.wal.roll()
            await marker(partition, 7, False)
            broker.wal.roll()
            await record(partition, 8, 0, b"open")
            tables.ends[partition.key] = 2
            broker.partitions.checkpoint()
            await broker.partitions.released_ends.note({partition.key: 2})
            released = broker.wal.segments()[1]
            await broker.partitions.segment_released(released.sequence)
            broker.wal.release(released.sequence)
        released.path.unlink()  # as if it was used again
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        for why in (None, "it cannot be read", None, "it cannot be read"):
            tables.why = why
            async with rig(tmp_path, tables=tables) as broker:
                data = await fetch_one(broker, "t", 0, isolation_level=1)
                assert values_in(data) == []
                assert (data.error_code == ErrorCode.KAFKA_STORAGE_ERROR) == bool(why)

    run(scenario)


@pytest.mark.parametrize("count", [1, 2])
def test_a_checkpoint_is_written_again_once_tables_can_be_read(
    tmp_path: Path, count: int
) -> None:
    """Also where nobody asks for what only the table knows: without a checkpoint no
    segment goes, and the disk fills."""

    async def scenario() -> None:
        tables, path = Unread(), tmp_path / "wal" / "checkpoint"
        async with rig(tmp_path, tables=tables) as broker:
            number = (await create(broker, "t", count)).number
            await produce_one(broker, "t", batch_of(b"x"))
        if count > 1:
            tables.ends[number, 1] = 10
        tables.why = "the table cannot be read"
        path.write_bytes(b"damaged" * 100)
        async with rig(tmp_path, tables=tables) as broker:
            tables.why = None
            assert broker.partitions.named("t", 0).high_watermark == 1
        tables.why = "the table cannot be read"
        async with rig(tmp_path, tables=tables) as broker:
            for index, end in enumerate([1, 10][:count]):
                assert broker.partitions.named("t", index).high_watermark == end
        assert unpack(path.read_bytes()).payload is not None

    run(scenario)


def test_without_a_checkpoint_an_older_batch_is_no_end_while_a_table_may_have_more(
    tmp_path: Path,
) -> None:
    """Of partition 0 a newer segment was released, of 1 the newest batch is in the
    last segment; what was written to 2 is in the first segment alone."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", 3)
            for index in range(3):
                batch = batch_of(b"old", producer=(9, 0, 0))
                await produce_one(broker, "t", batch, partition=index)
            broker.wal.roll()
            for _ in range(3):
                await produce_one(broker, "t", batch_of(b"new"))
            released = broker.wal.segments()[-1]
            tables.compact(broker, partition)
            broker.wal.roll()
            await produce_one(broker, "t", batch_of(b"new"), partition=1)
            broker.partitions.checkpoint()
            broker.wal.release(released.sequence)
        released.path.unlink()  # as where the disk was nearly full
        (tmp_path / "wal" / "checkpoint").write_bytes(b"damaged" * 100)
        tables.why = "the table cannot be read"
        for start_number in range(2):
            async with rig(tmp_path, tables=tables) as broker:
                for index in (0, 2):
                    answer = await produce_one(
                        broker, "t", batch_of(b"x"), partition=index
                    )
                    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                    unread = await fetched(broker, index)
                    assert unread.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert broker.partitions.named("t", 1).high_watermark == 2
                tables.why = None if start_number else tables.why
                if tables.why is None:
                    for index, end in enumerate((4, 2, 1)):
                        found = broker.partitions.named("t", index)
                        assert found.high_watermark == end
                    retry = batch_of(b"old", producer=(9, 0, 0))
                    answer = await produce_one(broker, "t", retry, partition=2)
                    assert (answer.error_code, answer.base_offset) == (0, 0)
                    assert values_in(await fetched(broker, 2)) == [b"old"]
                    answer = await produce_one(broker, "t", batch_of(b"x"))
                    assert (answer.error_code, answer.base_offset) == (0, 4)

    run(scenario)


def test_a_large_topic_is_found_when_all_its_partitions_are_known(
    tmp_path: Path,
) -> None:
    """In turns of the loop: half of it is served to nobody."""

    async def scenario() -> None:
        tables, count = Unread(), 2 * TAKEN_UP_A_TURN + 1
        async with rig(tmp_path, tables=tables) as broker:
            key = (await create(broker, "t", count)).key
        tables.ends[key] = 10
        tables.why = "the table cannot be read"
        async with rig(tmp_path, tables=tables) as broker:
            tables.why = None
            found = broker.partitions
            for index in (0, count - 1):
                with pytest.raises(KafkaError, match="in a moment") as raised:
                    found.named("t", index)
                assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(KafkaError) as raised:
                found.named("t", count)
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await asyncio.sleep(0)
            assert found.get(key[0], 0) is None
            tables.why = "the table cannot be read"  # it begins anew after that
            made = list(found)
            for _ in range(3):
                await asyncio.sleep(0)
                assert found.get(key[0], 0) is None
            tables.why = None
            while found.get(key[0], 0) is None:
                assert found.get(key[0], count - 1) is None
                await asyncio.sleep(0)
            assert list(found)[: len(made)] == made
            assert len(made) == 2 * TAKEN_UP_A_TURN
            assert found.named("t", 0).high_watermark == 10
            assert found.named("t", count - 1).high_watermark == 0

    run(scenario)


def test_a_topic_may_be_deleted_while_it_becomes_known(tmp_path: Path) -> None:
    async def scenario() -> None:
        tables, count = Unread(), 2 * TAKEN_UP_A_TURN + 1
        async with rig(tmp_path, tables=tables) as broker:
            number = (await create(broker, "t", count)).number
        tables.why = "the table cannot be read"
        async with rig(tmp_path, tables=tables) as broker:
            tables.why = None
            assert broker.partitions.get(number, 0) is None
            await broker.topics.delete(broker.topics.named("t"))
            for _ in range(4):
                await asyncio.sleep(0)
            assert broker.partitions.get(number, 0) is None
            assert list(broker.partitions) == []

    run(scenario)


def test_a_topic_that_waits_for_its_table_costs_no_more_the_larger_it_is(
    tmp_path: Path,
) -> None:
    """A request names each of its partitions, in one turn of the loop."""

    class Counted(Unread):
        asked = 0

        def table_end(self, number: int, partition: int) -> int:
            self.asked += 1
            return super().table_end(number, partition)

    async def scenario() -> None:
        tables, partitions = Counted(), 50
        async with rig(tmp_path, tables=tables) as broker:
            await create(broker, "t", partitions)
        tables.why = "the table cannot be read"
        async with rig(tmp_path, tables=tables) as broker:
            tables.asked = 0
            for index in range(partitions):
                assert broker.partitions.get(TopicNumber(1), index) is None
            assert tables.asked <= partitions

    run(scenario)
