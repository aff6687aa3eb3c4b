"""Partitions that rows in their own tables stop, and when to look at these again.

The problem: where an owner put a row, no record is added, and the partition waits until
he has deleted it. A try costs a file that is deleted again, so it is made once a minute
at most; but he should not wait for a minute once he has done his part. The idea: the
log of the table is followed anyway. Whenever it has moved, the rows that are in the way
are looked for as a commit would, without writing anything; the partition goes on when
there are none.

The price: the offsets of the files that reach into the range are read at each commit to
a table of which a partition is stopped.
"""

from collections.abc import Callable, Iterable, Iterator

from broker.ids import TopicNumber, TopicPartition
from jobs.planner import Pending
from jobs.tables import Table
from lakehouse.files.foreign_rows import has_rows

State = tuple[object, ...]
"""The log entry at which a table stands."""


class Blocked:
    """The partitions that were stopped; ``table`` is the topic's, as it is followed."""

    def __init__(self, table: Callable[[TopicNumber], Table | None]) -> None:
        self._table = table
        self._stopped: set[TopicPartition] = set()
        self._looked: dict[TopicPartition, State] = {}
        """At which state of its table a partition was looked at; never twice."""

    def stop(self, key: TopicPartition) -> None:
        """Rows were in its way just now."""
        self._stopped.add(key)

    def freed(self, waiting: Iterable[Pending]) -> Iterator[TopicPartition]:
        """Those of the stopped ones that may go on; they are forgotten.

        ``waiting``: all that tables lack. Blocks. Raises OSError.
        """
        known = self._stopped | self._looked.keys()
        pending = {one.key: one for one in waiting if one.key in known}
        for gone in known - pending.keys():
            self._stopped.discard(gone)
            self._looked.pop(gone, None)
        for key in list(self._stopped):
            if self._is_free(pending[key]):
                self._stopped.discard(key)
                yield key

    def _is_free(self, one: Pending) -> bool:
        """Whether the table has moved, and has none of the offsets that wait."""
        table = self._table(one.key[0])
        if table is None or not one.chunks:
            return False
        state = table.snapshot.version, table.snapshot.mark
        if self._looked.get(one.key) == state:
            return False
        self._looked[one.key] = state
        span = one.start, int(one.chunks[-1].last[-1]) + 1
        return not has_rows(table.path, table.snapshot.files.values(), one.key[1], span)
