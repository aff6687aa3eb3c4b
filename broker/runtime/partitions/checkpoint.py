"""A checkpoint, put together a piece at a time.

The problem. It says of every partition how far it is durable and what its producers
last sent: of a thousand partitions with a hundred producers each 13 MiB, a tenth of a
second of the loop, at each seal of a segment.

The idea. It need not be of one instant. The position that goes with it is taken first:
the payload must know of all that was finished before. A partition that is asked later
knows of more, and what it knows of is passed over when the log is replayed from that
position. So each turn of the loop asks as many partitions as fit into a fraction of a
millisecond; those whose producers did not change since the last time give the same
bytes again. The pieces are handed over as they are, and joined only in the file.

The price. A checkpoint of much is late by as many turns of the loop, and a restart
before that replays a segment more.
"""

from collections.abc import Iterable
from typing import Final

from broker.log.checkpoint import Payload
from broker.runtime.partitions.partition import Partition
from broker.storage.wal import Wal

STEP_PRODUCERS: Final = 500
STEP_PARTITIONS: Final = 500


class Checkpoint:
    """One checkpoint; `step` until it says that the log has it, or `finish`."""

    def __init__(self, partitions: Iterable[Partition], wal: Wal) -> None:
        self._wal = wal
        self._finished = wal.finished()  # before the first partition is asked
        self._rest = iter(list(partitions))
        self._payload = Payload()

    def finish(self) -> None:
        """Return the whole payload, without giving way."""
        while not self.step():
            pass

    def step(self) -> bool:
        """Ask some of the partitions; True when all are, and the log was told."""
        producers = 0
        for count, partition in enumerate(self._rest, 1):
            log = partition.log
            if log.offsets.next > 0 and not partition.deleted:
                producers += log.producers.stale + len(log.transactions)
                self._payload.add(partition.key, log)
            if count >= STEP_PARTITIONS or producers >= STEP_PRODUCERS:
                return False
        self._wal.checkpoint(self._payload.pieces(), self._finished)
        return True
