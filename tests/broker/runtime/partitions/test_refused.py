"""What was refused, and what may be lost: a start has to tell one from the other."""

import asyncio
from pathlib import Path

from broker.apis.produce import produce
from broker.runtime.partitions.coverage import Missing, missing
from tests.support.batches import Record, make_batch
from tests.support.rig import (
    Unread,
    batch_of,
    create,
    fetch_one,
    produce_one,
    produce_request,
    rig,
    run,
    start,
    values_in,
)


def keyed(value: bytes) -> bytearray:
    """A batch that a compacted topic takes; it refuses those without a key."""
    return make_batch([Record(key=b"k", value=value)])


def test_what_was_refused_amid_what_others_hold_is_no_loss_without_the_table(
    tmp_path: Path,
) -> None:
    """A later segment was released; the first one is read again at a start that has the
    checkpoint and not the table."""

    async def scenario() -> None:
        tables = Unread()
        async with rig(tmp_path, tables=tables) as broker:
            partition = await create(broker, "t", cleanup_policy="compact")
            await produce_one(broker, "t", keyed(b"a"))
            for value in (b"b", b"c"):
                asked = [
                    start(produce, produce_request("t", (0, batch)), broker, 9)
                    for batch in (batch_of(b"refused"), keyed(value))
                ]
                await asyncio.gather(*asked)
            broker.wal.roll()
            await produce_one(broker, "t", keyed(b"d"))
            tables.ends[partition.key] = 6
            broker.wal.roll()
            await produce_one(broker, "t", keyed(b"e"))
            released = broker.wal.segments()[1]
            broker.partitions.checkpoint()
            await broker.partitions.released_ends.note({partition.key: 6})
            await broker.partitions.segment_released(released.sequence)
            broker.wal.release(released.sequence)
        released.path.unlink()  # as if it was used again
        tables.ends.clear()
        async with rig(tmp_path, tables=tables) as broker:
            found = broker.partitions.named("t", 0)
            assert missing([found], broker.lake) == [Missing(found, 5, 6)]
            assert values_in(await fetch_one(broker, "t", 1)) == [b"b", b"c"]

    run(scenario)
