"""What writes files of tables anew, behind the rounds: merges and key compaction.

The problem: both want the one slot that Spark has for it, and must not plan on files
that the other is about to replace. The idea: one of them at a time, in turns: who had
the slot last is asked second. The price: a long clean keeps merges waiting.
"""

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from broker.ids import TopicNumber
from broker.topics.topic import Topic
from jobs.cleaning.cleaner import Cleaner
from jobs.merging.merger import Merger
from jobs.merging.rewrite import stop_file
from jobs.slot import Find
from jobs.tables import Table


class Rewrites:
    """Called by the compactor's step alone; made of what a `Merger` is made of."""

    def __init__(self, merger: Merger) -> None:
        self._runner, self._spill = merger.runner, merger.spill
        cleaner = Cleaner(
            merger.settings, merger.runner, merger.clock, merger.counters,
            merger.spill, merger.committed, merger.suspect, merger.defaults,
        )  # fmt: skip
        self._turns: list[Merger | Cleaner] = [merger, cleaner]
        self._is_swept = False
        self._kept: Collection[TopicNumber] = ()

    @property
    def left_alone(self) -> dict[TopicNumber, str]:
        """Topic number -> why files of its table stay as they are; not all if many."""
        one, other = self._turns
        return one.left_alone | other.left_alone

    @property
    def topic(self) -> str:
        """Whose files are written anew; "" if none are."""
        one, other = self._turns
        return one.slot.topic or other.slot.topic

    @property
    def writing(self) -> str | None:
        """What the paths of files have that are written, and no commit names yet."""
        one, other = self._turns
        return one.writing or other.writing

    def stop(self, timeout_s: float) -> None:
        """Have what is under way end, and wait for that; blocks."""
        if any(one.slot.is_busy for one in self._turns):
            with suppress(OSError):
                self._spill.mkdir(exist_ok=True)
                Path(stop_file(str(self._spill))).touch()
            self._runner.wait(timeout_s)

    def finish(
        self,
        topics: Mapping[TopicNumber, Topic],
        find: Find,
        may_commit: Callable[[], bool],
    ) -> None:
        """Commit what is under way, if it is done. ``topics``: as they are now.
        ``find``: a table as it is followed now; None: it is not."""

        def current(number: TopicNumber) -> Table | None:
            table = find(number) if number in topics else None
            if table is not None:
                table.topic = topics[number]  # it may have been altered
            return table

        for one in self._turns:
            if one.slot.is_busy:
                one.finish(current, may_commit)
                self._is_swept = False

    def look(self, tables: Callable[[], list[Table]], is_late: bool) -> None:
        """Begin something if it is due and nothing is under way; ``tables`` is asked
        when it is time to look at any."""
        if any(one.slot.is_busy for one in self._turns):
            return
        if not self._is_swept:  # of what a killed worker left to sort
            shutil.rmtree(self._spill, ignore_errors=True)
            self._is_swept = True
        found = _Lazily(tables)
        for one in list(self._turns):
            one.look(found, is_late)
            if one.slot.is_busy:
                self._turns.remove(one)
                self._turns.append(one)
                return

    def keep(self, numbers: Collection[TopicNumber]) -> None:
        """Forget all other topics: they were deleted. The same collection, which nobody
        changes, says nothing new."""
        if numbers is self._kept:
            return
        self._kept = numbers
        for one in self._turns:
            one.keep(set(numbers))


class _Lazily(Iterable[Table]):
    """Tables that are gathered when somebody goes through them, once."""

    def __init__(self, tables: Callable[[], list[Table]]) -> None:
        self._tables = tables
        self._found: list[Table] | None = None

    def __iter__(self) -> Iterator[Table]:
        if self._found is None:
            self._found = self._tables()
        return iter(self._found)
