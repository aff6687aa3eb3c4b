"""A checkpoint in pieces: what it knows, and that a crash beside it loses nothing."""

import asyncio
from pathlib import Path

from broker.apis.produce import produce
from broker.log import checkpoint
from broker.runtime.partitions.checkpoint import Checkpoint
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import Broker
from broker.storage.files import PosixFiles
from broker.storage.manifest import read_manifest
from broker.storage.objects import LocalObjects
from tests.support.rig import batch_of, call, create, produce_request, rig, run


async def idempotent(broker: Broker, name: str, partition: int, sequence: int) -> None:
    """One record of producer 7."""
    batch = batch_of(b"v", producer=(7, 0, sequence))
    await call(produce, produce_request(name, (partition, batch)), broker, 9)


async def written(broker: Broker, wal: Path) -> checkpoint.Mapping:
    """The snapshots of the checkpoint file, once it has some."""
    while True:
        manifest = read_manifest(LocalObjects(PosixFiles(), wal))
        if manifest is not None and manifest.payload:
            found = checkpoint.unpack(manifest.payload)
            if found:
                return found
        await asyncio.sleep(0.01)


def test_pieces_are_the_payload_that_one_turn_makes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=3)
            for index in range(3):
                await idempotent(broker, "t", index, 0)
            given: list[object] = []

            class Log:
                def finished(self) -> tuple[int, int]:
                    return 5, 4096

                def checkpoint(self, *what: object) -> None:
                    given.extend(what)

            Checkpoint(broker.partitions, Log()).finish()  # type: ignore[arg-type]
            pieces, position = given
            whole = checkpoint.pack((p.key, p.log) for p in broker.partitions)
            assert b"".join(pieces) == whole  # type: ignore[call-overload]
            assert position == (5, 4096)

    run(scenario)


def test_no_step_asks_more_than_some(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("broker.runtime.partitions.checkpoint.STEP_PRODUCERS", 2)
    asked: list[Partition] = []

    def partitions(found: list[Partition]):
        for partition in found:
            asked.append(partition)
            yield partition

    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=5)
            for index in range(5):
                await idempotent(broker, "t", index, 0)
            one = Checkpoint(broker.partitions, broker.wal)
            one._rest = iter(partitions(list(broker.partitions)))
            counts = []
            done = False
            while not done:
                done = one.step()
                counts.append(len(asked))
            assert counts == [2, 4, 5]
            asked.clear()
            again = Checkpoint(broker.partitions, broker.wal)
            again._rest = iter(partitions(list(broker.partitions)))
            assert again.step()  # nothing changed: nothing is packed again
            assert len(asked) == 5

    run(scenario)


def test_what_is_finished_between_two_steps_is_neither_lost_nor_twice(
    monkeypatch, tmp_path: Path
) -> None:
    """Killed behind it: partition 0 was asked before the batches, partition 1 after."""
    monkeypatch.setattr("broker.runtime.partitions.checkpoint.STEP_PARTITIONS", 1)

    async def first() -> None:
        async with rig(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            for index in range(2):
                await idempotent(broker, "t", index, 0)
            one = Checkpoint(broker.partitions, broker.wal)
            one.step()
            for index in range(2):
                await idempotent(broker, "t", index, 1)
            one.finish()
            broker.wal.checkpoint = lambda *_: None  # type: ignore[method-assign]
            found = await written(broker, tmp_path / "wal")
            assert sorted(each.durable for each in found.values()) == [1, 2]

    async def second() -> None:
        async with rig(tmp_path) as broker:
            for index in range(2):
                partition = broker.partitions.named("t", index)
                assert partition.high_watermark == 2
                for sequence in (1, 2):  # one again, and the next
                    await idempotent(broker, "t", index, sequence)
                assert partition.high_watermark == 3

    run(first)
    run(second)
