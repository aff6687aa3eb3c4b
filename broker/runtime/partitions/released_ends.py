"""Noting where released records end, before they are in tables alone.

The problem. Of a partition whose segments were all released the checkpoint and the
table know where it ends. A start that finds neither would give its offsets again, and
what is written then is hidden when the table comes back. The idea: before segments go,
the catalog says durably how far each of their partitions reaches; what is not below
that is in segments. So a start knows every end, and what it cannot find is an error,
told until the table is there or its owner gives it up with DeleteRecords. The price:
one change of the catalog for all segments that go together, on nobody's way.

A catalog of the version before says nothing. What partitions were found to have beside
their segments is noted at their start, or when their table can be read.
"""

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from broker.catalog import released_ends
from broker.catalog.catalog import Catalog
from broker.ids import TopicNumber, TopicPartition
from broker.runtime.partitions.partition import Partition

log = structlog.get_logger("lakelog.restore")


class ReleasedEnds:
    """What the catalog says of them; used on the loop."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._found: dict[TopicPartition, int] = {}

    def load(self) -> Mapping[TopicPartition, int]:
        """Partition -> the offset below which records were released. Blocks."""
        return self._catalog.read(released_ends.load)

    async def note(self, ends: Mapping[TopicPartition, int]) -> None:
        """Return when these are durable, and all that was found before.

        Raises KafkaError KAFKA_STORAGE_ERROR: they may be, or not.
        """
        found, self._found = self._found, {}
        noted = found | {key: max(end, found.get(key, 0)) for key, end in ends.items()}
        if not noted:
            return
        try:
            await asyncio.wrap_future(
                self._catalog.submit(lambda c: released_ends.raise_to(c, noted))
            )
        except BaseException:
            self._found = {**found, **self._found}
            raise

    def note_found(
        self,
        partitions: Iterable[Partition],
        noted: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Note what a start has found of these, unless it is ``noted`` already: soon,
        and before anything else is released."""
        known, found = noted or {}, dict[TopicPartition, int]()
        for partition in partitions:
            end, start = _released_end(partition), partition.log_start
            needed = partition.log.hole_end(start) or start
            if end > max(needed, known.get(partition.key, 0)):
                found[partition.key] = end
        if found:
            self._found |= found
            self._catalog.write(lambda c: released_ends.raise_to(c, found), _report)

    def forget(self, number: TopicNumber) -> None:
        """A topic is deleted: its rows go with its table, and do not come again."""
        self._found = {key: end for key, end in self._found.items() if key[0] != number}


def _report(error: BaseException | None) -> None:
    """On the catalog's thread. They are noted with the next release at the latest."""
    if error is not None:
        log.warning("where released records end is not noted yet", why=str(error))


def _released_end(partition: Partition) -> int:
    """The offset below which nothing of a partition is in segments. What a start leaves
    to the table is in both, and in that it need not be durable."""
    log, first = partition.log, partition.log.index.first_offset
    end = log.durable if first is None else first
    return end if log.left_from is None else min(end, log.left_from)
