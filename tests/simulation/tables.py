"""Tables of lists, and a compactor that moves into them what is durable.

Approximated: a table holds the batches as they were produced, its commits are whole,
and the broker follows them at once. Real is when a commit is on the disk: not before
somebody verified it, which is what the broker does before it lets a segment go.
"""

import asyncio

from broker.lake.cold import ColdRead
from broker.records.batch import read_header
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import read_marker
from broker.runtime.partitions.partition import Partition
from broker.runtime.services import Broker
from tests.simulation.world import World
from tests.support.rig import Tables

Key = tuple[int, int]


def decided(batches: list[bytes], end: int) -> tuple[list[bytes], int]:
    """Those that count, and where the first begins that waits for a marker."""
    fates: dict[int, bool] = {}
    counted = []
    for batch in reversed(batches):
        header = read_header(batch)
        if header.is_control:
            fates[header.producer_id] = read_marker(batch).commit
            continue
        is_plain = not header.attributes & TRANSACTIONAL_BIT
        fate = True if is_plain else fates.get(header.producer_id)
        if fate is None:
            end = header.base_offset
        elif fate:
            counted.append((header.base_offset, batch))
    return [batch for base, batch in reversed(counted) if base < end], end


class SimTables(Tables):
    """Outlives a broker, and forgets what was not synced when the power goes."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._synced: dict[Key, tuple[int, int]] = {}

    def compact(self, broker: Broker, partition: Partition) -> None:
        """Move what is durable and decided and not in the table yet; segments keep
        their part."""
        key = partition.key
        index = partition.log.index
        start = max(self.table_end(*key), index.first_offset or 0)
        spans = [(e.location, e.length) for e in index if e.base >= start]
        batches, end = decided(broker.wal.read(spans), partition.high_watermark)
        if end <= self.table_end(*key):
            return
        self.batches.setdefault(key, []).extend(batches)
        self.ends[key] = end
        self._world.tell(f"compactor: {key} up to {end}")

    def verified_ends(self, number: int) -> dict[int, int]:
        """Sync the table, then say where it ends. On a thread."""
        self._world.block(None, self._world.chance.randrange(100, 5_000))
        self._note_synced(number)
        return super().verified_ends(number)

    def _note_synced(self, number: int) -> None:
        for key, end in self.ends.items():
            if key[0] == number:
                self._synced[key] = len(self.batches.get(key, ())), end

    async def read(
        self, number: int, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        await asyncio.sleep(self._world.chance.randrange(0, 3_000) / 1e6)
        return await super().read(number, partition, offset, bytes_max)

    def lose_power(self) -> None:
        """Some topics keep their unsynced commits, others lose them; what is kept is
        on the disk."""
        for number in sorted({number for number, _ in self.ends}):
            if self._world.chance.random() < 0.5:
                self._revert(number)
            else:
                self._note_synced(number)

    def _revert(self, number: int) -> None:
        for key in [key for key in self.ends if key[0] == number]:
            count, end = self._synced.get(key, (0, 0))
            del self.batches.get(key, [])[count:]
            self.ends[key] = end
