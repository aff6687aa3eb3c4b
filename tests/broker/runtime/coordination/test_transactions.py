"""The coordinator of transactions on a real catalog and a real log."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.catalog import transactions as stored
from broker.groups.offsets import Committed
from broker.ids import ProducerId
from broker.protocol.errors import ErrorCode
from broker.records.layout import TRANSACTIONAL_BIT
from broker.runtime.coordination.transactions import SWEPT_EVERY_MS, limits_of
from broker.runtime.services import Broker
from broker.settings import Settings, TransactionSettings
from broker.transactions.commands import (
    Add,
    Added,
    End,
    Ended,
    Initialized,
    InitProducer,
    Refused,
)
from broker.transactions.limits import TransactionLimits
from broker.transactions.states import TransactionState
from tests.support.clock import ManualClock
from tests.support.rig import batch_of, create, fetch_one, rig, run, values_in
from tests.support.timers import ManualTimers

MINUTE_MS = 60_000
GROUP = "g"


class World:
    """A broker and the coordinator of its transactions, asked without its APIs."""

    def __init__(
        self, broker: Broker, clock: ManualClock, timers: ManualTimers, version: int
    ) -> None:
        self.broker = broker
        self.clock = clock
        self.timers = timers
        self.coordinator = broker.transactions
        self.markers = self.coordinator._markers
        self.coordinator.limits = replace(self.coordinator.limits, version=version)

    def log(self, index: int = 0) -> Any:
        return self.broker.partitions.named("t", index).log

    def key(self, index: int = 0) -> tuple[int, int]:
        return self.broker.partitions.named("t", index).key

    async def init(self, name: str = "x", **fields: int) -> Any:
        given = {"timeout_ms": MINUTE_MS, "new_producer_id": 77} | fields
        return await self.coordinator.init_producer(name, InitProducer(**given))

    async def add(self, producer: Any, *parts: Any, version: int = 1) -> Any:
        groups = frozenset(part for part in parts if isinstance(part, str))
        keys = frozenset(self.key(part) for part in parts if not isinstance(part, str))
        ids = producer.producer_id, producer.producer_epoch
        return await self.coordinator.add("x", Add(*ids, keys, groups, version))

    def end(self, producer: Any, commit: bool, version: int = 1) -> Any:
        ids = producer.producer_id, producer.producer_epoch
        return self.coordinator.end("x", End(*ids, commit, version))

    async def write(self, producer: Any, sequence: int, index: int = 0) -> None:
        """One record of the transaction, verified as Produce would."""
        ids = producer.producer_id, producer.producer_epoch
        code = self.coordinator.verify("x", *ids, self.key(index))
        assert code is ErrorCode.NONE
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        batch = batch_of(b"v", producer=(*ids, sequence), attributes=TRANSACTIONAL_BIT)
        self.broker.partitions.named("t", index).append(
            batch, 9, 0, lambda *told: done.set_result(told), in_transaction=True
        )
        assert (await done)[2] is None

    def state(self) -> TransactionState:
        found = self.coordinator.describe("x")
        assert found is not None
        return found.state


def producer_of(one: Any) -> tuple[ProducerId, int]:
    return one.producer_id, one.producer_epoch


@asynccontextmanager
async def world(
    path: Path, clock: ManualClock | None = None, version: int = 1
) -> AsyncIterator[World]:
    """A world on this folder; opened again, it is the broker restarted."""
    clock = clock or ManualClock()
    timers = ManualTimers(clock)
    async with rig(path, clock=clock, timers=timers) as broker:
        if not len(broker.topics):
            await create(broker, "t", partitions=3)
        made = World(broker, clock, timers, version)
        yield made
        await made.coordinator.close()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_its_first_epoch_to_its_markers(tmp_path, commit, version):
    async def scenario() -> None:
        async with world(tmp_path, version=version) as here:
            producer = await here.init()
            assert producer == Initialized(77, 0)
            assert await here.add(producer, 0, 1, GROUP, version=version) == Added()
            await here.write(producer, 0)
            offsets = here.broker.groups.offsets
            await offsets.commit_pending(GROUP, 77, {here.key(): Committed(5)})
            assert here.log().stable == 0
            ended = await here.end(producer, commit, version)
            assert ended == Ended(77, 0 if version == 1 else 1)
            assert [here.log(index).durable for index in range(3)] == [2, 1, 0]
            assert [here.log(index).stable for index in range(3)] == [2, 1, 0]
            assert here.log().aborted(0, 2) == ([] if commit else [(77, 0)])
            assert set(offsets.of(GROUP)) == ({here.key()} if commit else set())
            assert not offsets.unstable(GROUP)

    run(scenario)


def test_a_start_completes_what_was_decided(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as here:
            producer = await here.init()
            await here.add(producer, 0, GROUP)
            await here.write(producer, 0)
            offsets = here.broker.groups.offsets
            await offsets.commit_pending(GROUP, 77, {here.key(): Committed(5)})
            here.markers.close()  # the power goes between decision and markers
            asked = here.end(producer, True)
            while here.state() is not TransactionState.PREPARE_COMMIT:
                await asyncio.sleep(0.001)
            assert not asked.done()
        assert asked.result() == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        async with world(tmp_path) as here:
            assert here.log().stable == 0
            while here.state() is not TransactionState.COMPLETE_COMMIT:
                await asyncio.sleep(0.001)
            assert (here.log().stable, here.log().aborted(0, 2)) == (2, [])
            assert here.broker.groups.offsets.of(GROUP) == {here.key(): Committed(5)}
            assert await here.end(producer, True) == Ended(77, 0)
            assert await here.init() == Initialized(77, 1)

    run(scenario)


def test_an_open_transaction_is_open_after_a_start_and_aborted_in_time(tmp_path):
    async def scenario() -> None:
        clock = ManualClock()
        async with world(tmp_path, clock) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
        async with world(tmp_path, clock) as here:
            await here.write(producer, 1)
            assert (here.log().stable, here.log().durable) == (0, 2)
            here.timers.advance(MINUTE_MS)
            while here.state() is not TransactionState.COMPLETE_ABORT:
                await asyncio.sleep(0.001)
            assert (here.log().stable, here.log().aborted(0, 3)) == (3, [(77, 0)])
            fenced = Refused(ErrorCode.PRODUCER_FENCED)
            assert await here.end(producer, True) == fenced

    run(scenario)


def made(path: Path) -> Path:
    path.mkdir()
    return path


async def ended_for_good(here: World) -> None:
    """The row says that the transaction is complete."""
    here.timers.advance(here.coordinator.limits.completion_delay_ms)
    while '"Complete' not in here.broker.catalog.read(stored.load)["x"]:
        await asyncio.sleep(0.001)


def kill(here: World, *offsets: int, path: Path, headers: bool = False) -> None:
    """What a kill leaves, in another folder; the batches at offsets are damaged.

    ``headers``: and what says before them whose they are.
    """
    coming = shutil.ignore_patterns("*.new")  # it may be renamed meanwhile
    shutil.copytree(here.broker.settings.data_dir, path, ignore=coming)
    some = [entry for entry in here.log().index if entry.base in offsets]
    assert len(some) == len(offsets)
    for batch in here.broker.wal.read([(at.location, at.length) for at in some]):
        for file in (path / "wal").iterdir():
            data = file.read_bytes()
            at = data.find(bytes(batch))
            if at < 0:
                continue
            for place in (at + len(batch) - 1, *[at - 4] * headers):
                data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            file.write_bytes(data)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_marker_is_written_again_before_the_producer_writes(
    tmp_path: Path, commit: bool, version: int
) -> None:
    """The next one would decide its transaction, for who reads what is committed."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0"), version=version) as here:
            producer = await here.init()
            await here.add(producer, 0, 1, version=version)
            await here.write(producer, 0)
            producer = await here.end(producer, commit, version)
            await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1")
        async with world(tmp_path / "1", version=version) as here:
            assert here.log().stable == 0
            assert here.coordinator.verify("x", *producer_of(producer), here.key()) is (
                ErrorCode.CONCURRENT_TRANSACTIONS
            )
            again = await here.add(producer, 0, version=version)
            assert again == Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
            while not here.coordinator.describe("x").is_complete:
                await asyncio.sleep(0.001)
            end = here.log().durable
            assert (here.log().stable, here.log(1).durable) == (end, 1)
            assert await here.add(producer, 0, version=version) == Added()
            await here.write(producer, 0 if version == 2 else 1)
            await here.end(producer, not commit, version)
            aborted = (77, end) if commit else (77, 0)
            assert here.log().aborted(0, here.log().stable) == [aborted]

    run(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_what_lost_its_marker_is_decided_by_no_other_transaction(tmp_path, version):
    """One that is older than the last, and whose end nobody knows any more, hangs."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0"), version=version) as here:
            producer = await here.init()
            for index, commit in ((0, False), (1, True)):
                await here.add(producer, index, version=version)
                await here.write(producer, 0, index)
                producer = await here.end(producer, commit, version)
            await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1")
        async with world(tmp_path / "1", version=version) as here:
            assert here.state() is TransactionState.COMPLETE_COMMIT
            assert here.log().transactions.open == {77: 0}

    run(scenario)


async def read_by_parts(here: World) -> list[Any]:
    """What is told of the first record, to who reads all and to who reads what is
    committed; and what the latter reads behind the damage."""
    every, first, behind = [
        await fetch_one(here.broker, "t", offset, isolation_level=level)
        for offset, level in ((0, 0), (0, 1), (2, 1))
    ]
    aborted = [one.producer_id for one in behind.aborted_transactions or ()]
    return [values_in(every), first.error_code, values_in(first), aborted]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ends", [(True, False), (False, True), (True, True)])
def test_what_stands_before_a_lost_marker_is_undecided_until_it_is_given_up(
    tmp_path: Path, ends: tuple[bool, bool], version: int
) -> None:
    """The next transaction's marker is whole, and says nothing of it."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0"), version=version) as here:
            producer = await here.init()
            for at, commit in enumerate(ends):
                await here.add(producer, 0, version=version)
                await here.write(producer, at if version == 1 else 0)
                producer = await here.end(producer, commit, version)
            await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1")
        aborted = [] if ends[1] else [77]
        told = [[b"v"], ErrorCode.KAFKA_STORAGE_ERROR, [], aborted]
        for _start in ("from the segments", "from the checkpoint"):
            async with world(tmp_path / "1", version=version) as here:
                assert await read_by_parts(here) == told
                assert here.log().stable == here.log().durable == 4
        async with world(tmp_path / "1", version=version) as here:
            partition = here.broker.partitions.named("t", 0)
            await here.broker.partitions.raise_log_starts({partition: 2})
            assert here.log().transactions.undecided == []
            told[:2] = [], ErrorCode.OFFSET_OUT_OF_RANGE
            assert await read_by_parts(here) == told

    run(scenario)


@pytest.mark.parametrize("ends", [(True, False), (False, True)])
def test_a_marker_lost_without_a_trace_leaves_no_transaction_to_the_next_one(
    tmp_path: Path, ends: tuple[bool, bool]
) -> None:
    """Its offset is given again; only epochs, of version 2, tell of it."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0"), version=2) as here:
            producer = await here.init()
            for index, commit in ((0, ends[0]), (1, True)):
                await here.add(producer, index, version=2)
                await here.write(producer, 0, index)
                producer = await here.end(producer, commit, 2)
            await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1", headers=True)
        async with world(tmp_path / "1", version=2) as here:
            assert (here.log().transactions.open, here.log().lost) == ({77: 0}, [])
            await here.add(producer, 0, version=2)
            await here.write(producer, 0)
            assert here.log().stable == 1
            await here.end(producer, ends[1], 2)
            await ended_for_good(here)
            kill(here, path=tmp_path / "2")
        told = [ErrorCode.KAFKA_STORAGE_ERROR, [] if ends[1] else [77]]
        for start in ("1", "2"):
            async with world(tmp_path / start, version=2) as here:
                first, behind = [
                    await fetch_one(here.broker, "t", offset, isolation_level=1)
                    for offset in (0, 1)
                ]
                aborted = [one.producer_id for one in behind.aborted_transactions or ()]
                assert [first.error_code, aborted] == told
                assert here.log().transactions.undecided == [(0, 1)]
                assert here.log().stable == here.log().durable == 3

    run(scenario)


@pytest.mark.parametrize("ends", ["fenced", "goes on", "goes on without a record"])
@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_damage_up_to_the_end_leaves_no_transaction_to_the_one_that_was_open(
    tmp_path: Path, commit: bool, headers: bool, ends: str
) -> None:
    """It took a marker and what the next transaction had written; in version 1 both
    have one epoch."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
            await here.end(producer, commit)
            await ended_for_good(here)
            await here.add(producer, 0)
            await here.write(producer, 1)
            kill(here, 1, 2, path=tmp_path / "1", headers=headers)
        lost = 0 if headers else 2  # offsets that nobody gives again
        async with world(tmp_path / "1") as here:
            assert here.log().transactions.open == {77: 0}
            assert here.log().durable == 1 + lost
            if ends == "goes on":
                await here.write(producer, 1)
            if ends == "fenced":
                while not isinstance(await here.init(), Initialized):
                    await asyncio.sleep(0.001)
            else:
                await here.end(producer, not commit)
                await ended_for_good(here)
            kill(here, path=tmp_path / "2")
        # what is written then follows: its first offset is not known, but a bound
        joined = ends == "goes on"
        start_of_next = 1 if headers else 2
        aborted = [(77, start_of_next)] if commit and joined else []
        undecided = [(0, start_of_next if joined else 1)]
        for start in ("1", "2"):
            async with world(tmp_path / start) as here:
                first = await fetch_one(here.broker, "t", 0, isolation_level=1)
                end = here.log().stable
                assert first.error_code is ErrorCode.KAFKA_STORAGE_ERROR
                assert here.log().aborted(1 + lost, end) == aborted
                assert here.log().transactions.undecided == undecided
                assert end == here.log().durable == 2 + lost + joined

    run(scenario)


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_the_first_transaction_of_version_2_decides_none_of_version_1(
    tmp_path: Path, commit: bool, headers: bool
) -> None:
    """It has its epoch still; that which follows has another."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
            await here.end(producer, commit)
            await here.add(producer, 1, version=2)
            await here.add(producer, 0, version=2)
            await here.write(producer, 1)
            kill(here, 1, 2, path=tmp_path / "1", headers=headers)
        async with world(tmp_path / "1", version=2) as here:
            producer = await here.end(producer, not commit, 2)
            assert here.log().transactions.undecided == [(0, 1)]
            await here.add(producer, 0, version=2)
            assert here.coordinator.describe("x").starts == ()

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("ends_as", [1, 2])
def test_a_partition_that_is_part_already_begins_no_later_when_it_is_added_again(
    tmp_path: Path, commit: bool, ends_as: int
) -> None:
    """By Produce first, and then with another one by AddPartitionsToTxn."""

    async def scenario() -> None:
        async with world(tmp_path, version=2) as here:
            producer = await here.end(await here.init(), False, 2)
            await here.add(producer, 0, version=2)
            await here.write(producer, 0)
            await here.add(producer, 0, 1, version=1)
            await here.end(producer, commit, ends_as)
            assert here.log().transactions.undecided == []
            first = await fetch_one(here.broker, "t", 0, isolation_level=1)
            assert first.error_code == ErrorCode.NONE
            assert here.log().aborted(0, 2) == ([] if commit else [(77, 0)])

    run(scenario)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_partition_that_lost_its_end_lowers_where_an_open_transaction_begins(
    tmp_path: Path, is_noted: bool
) -> None:
    """Each start that follows knows it, or takes what was written since for
    undecided."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
            await here.end(producer, False)
            await here.add(producer, 0)
            await here.write(producer, 1)
            row = here.broker.catalog.read(stored.load)["x"]
            kill(here, 1, 2, path=tmp_path / "1", headers=True)
        async with world(tmp_path / "1") as here:
            await here.write(producer, 1)
            await here.coordinator._journal.flush()
            if not is_noted:
                change = partial(stored.store, transactional_id="x", value=row)
                here.broker.catalog.change(change)
            kill(here, path=tmp_path / "2")
        async with world(tmp_path / "2") as here:
            await here.end(producer, True)
            undecided = [(0, 1)] if is_noted else [(0, 2)]
            assert here.log().transactions.undecided == undecided
            assert (here.log().stable, here.log().aborted(0, 3)) == (3, [])

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_transaction_lost_without_a_trace_is_not_decided_by_the_next_one(
    tmp_path: Path, commit: bool
) -> None:
    """Nobody has the marker; what is written in the same epoch stands right behind."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            for index, commits in ((0, commit), (1, True)):
                await here.add(producer, index)
                await here.write(producer, 0, index)
                await here.end(producer, commits)
            await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1", headers=True)
        async with world(tmp_path / "1") as here:
            assert (here.log().transactions.open, here.log().lost) == ({77: 0}, [])
            await here.add(producer, 0)
            await here.write(producer, 1)
            assert here.log().stable == 0
            await here.end(producer, not commit)
            await ended_for_good(here)
            kill(here, path=tmp_path / "2")
        told = [ErrorCode.KAFKA_STORAGE_ERROR, [(77, 1)] if commit else []]
        for start in ("1", "2"):
            async with world(tmp_path / start) as here:
                first = await fetch_one(here.broker, "t", 0, isolation_level=1)
                assert [first.error_code, here.log().aborted(1, 3)] == told
                assert here.log().transactions.undecided == [(0, 1)]
                assert here.log().stable == here.log().durable == 3

    run(scenario)


@pytest.mark.parametrize("is_fenced", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_the_marker_of_a_transaction_without_a_record_decides_no_other(
    tmp_path: Path, commit: bool, is_fenced: bool
) -> None:
    """In version 1 it looks like the lost one, written again."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
            await here.end(producer, commit)
            await here.add(producer, 0, 1)
            await here.write(producer, 0, 1)
            if is_fenced:
                while not isinstance(await here.init(), Initialized):
                    await asyncio.sleep(0.001)
            else:
                await here.end(producer, not commit)
                await ended_for_good(here)
            kill(here, 1, path=tmp_path / "1")
        told = [[b"v"], ErrorCode.KAFKA_STORAGE_ERROR, [], []]
        async with world(tmp_path / "1") as here:
            assert await read_by_parts(here) == told
            assert here.log().stable == here.log().durable == 3
            assert here.log(1).transactions.undecided == []

    run(scenario)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_an_epoch_before_does_not_end_as_the_last(
    tmp_path: Path, commit: bool, goes_on: bool
) -> None:
    """A page took its marker and all of the last one in that partition."""
    ended_last = TransactionState.COMPLETE_COMMIT
    if not commit:
        ended_last = TransactionState.COMPLETE_ABORT

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            current: dict[str, int] = {}
            for commits in (not commit, commit):
                producer = await here.init(**current)
                await here.add(producer, 0)
                await here.write(producer, 0)
                await here.end(producer, commits)
                await ended_for_good(here)
                current = asdict(producer) if goes_on else {}
            kill(here, 1, 2, 3, path=tmp_path / "1")
        async with world(tmp_path / "1") as here:
            assert here.state() is ended_last
            assert here.log().transactions.open == {77: 0}

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_before_in_the_same_epoch_does_not_end_as_the_last(
    tmp_path: Path, commit: bool
) -> None:
    """So it goes on in version 1: only offsets tell one from the other."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            for sequence, commits in enumerate((not commit, commit)):
                await here.add(producer, 0)
                await here.write(producer, sequence)
                await here.add(producer, 1)  # nothing of what was there moves
                await here.end(producer, commits)
                await ended_for_good(here)
            found = here.coordinator.describe("x").starts
            assert [start for _, start in found] == [2, 1]
            kill(here, 1, 2, 3, path=tmp_path / "1")
        async with world(tmp_path / "1") as here:
            assert here.coordinator.describe("x").is_complete
            assert here.log().transactions.open == {77: 0}

    run(scenario)


def test_who_lost_records_to_damage_goes_on_behind_them(tmp_path: Path) -> None:
    """Of what it wrote only the marker is left."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.write(producer, 0)
            await here.end(producer, True)
            await ended_for_good(here)
            kill(here, 0, path=tmp_path / "1")
        async with world(tmp_path / "1") as here:
            await here.add(producer, 0)
            await here.write(producer, 1)
            assert await here.end(producer, True) == Ended(77, 0)

    run(scenario)


def test_who_lost_all_that_was_in_a_partition_goes_on_in_it(tmp_path: Path) -> None:
    """Nobody knew of it, until it got the marker."""

    async def scenario() -> None:
        async with world(made(tmp_path / "0")) as here:
            producer = await here.init()
            await here.add(producer, 0, 1)
            await here.write(producer, 0)
            await here.write(producer, 0, 1)
            kill(here, 0, path=tmp_path / "1", headers=True)
        async with world(tmp_path / "1") as here:
            assert here.log().durable == 0
            assert await here.end(producer, True) == Ended(77, 0)
            await ended_for_good(here)
            await here.add(producer, 0)
            await here.write(producer, 1)
            assert await here.end(producer, True) == Ended(77, 0)

    run(scenario)


def test_the_row_of_a_complete_transaction_follows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as here:
            producer = await here.init()
            await here.add(producer, 0)
            await here.end(producer, True)
            catalog = here.broker.catalog
            assert '"PrepareCommit"' in catalog.read(stored.load)["x"]
            here.timers.advance(here.coordinator.limits.completion_delay_ms)
            while '"CompleteCommit"' not in catalog.read(stored.load)["x"]:
                await asyncio.sleep(0.001)

    run(scenario)


def test_an_id_that_nobody_uses_is_forgotten_and_may_come_again(tmp_path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as here:
            await here.init()
            here.timers.advance(here.coordinator.limits.id_expiration_ms)
            while here.coordinator.describe("x") is not None:
                here.timers.advance(SWEPT_EVERY_MS)
                await asyncio.sleep(0.001)
            assert not here.broker.catalog.read(stored.load)
            assert not dict(here.coordinator.all())
            here.timers.advance(SWEPT_EVERY_MS)
            assert here.coordinator._sweep is None, "there is nothing to look at"
            assert await here.init(new_producer_id=78) == Initialized(78, 0)

    run(scenario)


def test_who_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as here:
            nobody, coordinator = Initialized(77, 0), here.coordinator
            unknown = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            assert await here.add(nobody, 0) == unknown
            assert await here.end(nobody, True) == unknown
            code = coordinator.verify("x", 77, 0, here.key())
            assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert await here.init("") == Refused(ErrorCode.INVALID_REQUEST)
            too_long = Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            assert await here.init(timeout_ms=10**9) == too_long
            assert not coordinator._hosted
            asked = InitProducer(MINUTE_MS)
            assert coordinator.needs_producer_id("x", asked)
            assert not coordinator.needs_producer_id("x", End(77, 0, True))
            await here.init()
            assert not coordinator.needs_producer_id("x", asked)
            assert [name for name, _ in coordinator.all()] == ["x"]

    run(scenario)


def test_a_coordinator_that_stops_sends_everybody_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as here:
            producer = await here.init()
            await here.coordinator.close()
            away = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await here.init() == Refused(away)
            assert await here.init("") == Refused(away)
            assert await here.end(producer, True) == Refused(away)
            assert here.coordinator.verify("x", 77, 0, here.key()) is away

    run(scenario)


def test_a_row_that_cannot_be_read_stops_no_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            broker.catalog.change(lambda c: stored.store(c, "bad", "nonsense"))
        async with world(tmp_path) as here:
            assert here.coordinator.describe("bad") is None
            assert await here.init("bad") == Initialized(77, 0)

    run(scenario)


def test_no_more_ids_are_taken_than_may_be_and_those_that_are_here_go_on(tmp_path):
    async def scenario() -> None:
        clock = ManualClock()
        full = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        async with world(tmp_path, clock) as here:
            limits = replace(here.coordinator.limits, ids_max=2)
            here.coordinator.limits = limits
            await here.init("x")
            assert not here.coordinator.warnings()
            assert await here.init("y", new_producer_id=78) == Initialized(78, 0)
            assert await here.init("z") == full
            asked = InitProducer(MINUTE_MS)
            assert not here.coordinator.needs_producer_id("z", asked)
            [warning] = here.coordinator.warnings()
            assert "transactions.ids_max=2" in warning
            producer = await here.init("x")
            assert producer == Initialized(77, 1)
            assert await here.add(producer, 0) == Added()
            assert await here.end(producer, True) == Ended(77, 1)
            unknown = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            end = End(79, 0, True)
            assert await here.coordinator.end("z", end) == unknown
        async with world(tmp_path, clock) as here:  # what is stored is always taken
            here.coordinator.limits = replace(limits, ids_max=1)
            assert await here.init("z") == full
            assert await here.init("y") == Initialized(78, 1)
            here.timers.advance(limits.id_expiration_ms)
            while here.coordinator.names():
                here.timers.advance(SWEPT_EVERY_MS)
                await asyncio.sleep(0.001)
            assert not here.coordinator.warnings()
            assert await here.init("z", new_producer_id=80) == Initialized(80, 0)

    run(scenario)


def test_the_limits_are_the_settings() -> None:
    asked = TransactionSettings(max_timeout_ms=101, id_expiration_ms=102, ids_max=103)
    limits = limits_of(Settings(transactions=asked))
    assert limits == TransactionLimits(
        timeout_max_ms=101, id_expiration_ms=102, ids_max=103
    )
    assert limits_of(Settings()) == TransactionLimits()
