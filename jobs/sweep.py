"""Which tables are to be looked through for files that no commit names.

The problem: a round that is killed or refused leaves files, and only a look at all
files of a table finds them: of a hundred thousand that costs a second, and nearly
always finds none. The idea: look where somebody may have left some: in each table once,
since a compactor before this one may have been killed; after a round that failed there;
and now and then, should another compactor have believed that it still was the one. What
a look found and nothing could be done about yet is remembered. Pure.
"""

from collections.abc import Iterable
from typing import Final

from broker.ids import TopicNumber

AGAIN_MS: Final = 3_600_000

Files = dict[str, int]
"""Path below the table -> time of last change, ms."""


class Sweep:
    """Of each topic, when to look again and what was left."""

    def __init__(self) -> None:
        self._again_ms: dict[TopicNumber, int] = {}
        self._left: dict[TopicNumber, Files] = {}
        self._begun: set[TopicNumber] = set()
        self._ahead: dict[TopicNumber, dict[tuple[str, int], int]] = {}
        """Of files that say that they change later: when each was first seen so."""
        self._seen: dict[TopicNumber, Files] = {}

    def suspect(self, numbers: Iterable[TopicNumber]) -> None:
        """Something failed there: look at the next pass."""
        for number in numbers:
            self._again_ms.pop(number, None)

    def is_due(self, number: TopicNumber, now_ms: int) -> bool:
        """Whether to look at all files of the topic's table."""
        again_ms = self._again_ms.get(number)
        return again_ms is None or not again_ms - AGAIN_MS <= now_ms < again_ms

    def left(self, number: TopicNumber) -> Files:
        """The files that the last look found and that are still there."""
        return self._left.get(number, {})

    def looked(self, number: TopicNumber, now_ms: int) -> None:
        """All files were looked at."""
        self._again_ms[number] = now_ms + AGAIN_MS

    def keep(self, number: TopicNumber, files: Files) -> None:
        """These are no table's, and not to be deleted yet."""
        self._left[number] = files

    def has_begun(self, number: TopicNumber) -> bool:
        """Whether the last look found files that were begun too lately to go."""
        return number in self._begun

    def keep_begun(self, number: TopicNumber, *, is_any: bool) -> None:
        """Whether there are still such files."""
        if is_any:
            self._begun.add(number)
        else:
            self._begun.discard(number)

    def dated(
        self, number: TopicNumber, begun: Files, now_ms: int, delay_ms: int
    ) -> Files:
        """All files that are begun in the topic's table, as they were found, by when
        they changed last. One that says it will, and not in ``delay_ms``, has it from a
        clock that is ahead: it has changed when it was first seen so. One that is
        written goes on to change."""
        known = self._ahead.pop(number, {})
        ahead = {
            one: known.get(one, now_ms)
            for one in begun.items()
            if one[1] - now_ms > delay_ms
        }
        if ahead:
            self._ahead[number] = ahead
        return {one[0]: ahead.get(one, one[1]) for one in begun.items()}

    def seen(self, number: TopicNumber, paths: Iterable[str], now_ms: int) -> Files:
        """Since when each of these files is known to be in no table; of others that is
        forgotten."""
        known = self._seen.pop(number, {})
        seen = {path: min(known.get(path, now_ms), now_ms) for path in paths}
        if seen:
            self._seen[number] = seen
        return seen

    def forget(self, numbers: Iterable[TopicNumber]) -> None:
        """These topics are gone."""
        for number in numbers:
            self._again_ms.pop(number, None)
            self._left.pop(number, None)
            self._begun.discard(number)
            self._ahead.pop(number, None)
            self._seen.pop(number, None)

    @property
    def topics(self) -> set[TopicNumber]:
        """Those of which anything is known."""
        known = self._again_ms.keys() | self._left.keys() | self._ahead.keys()
        return known | self._begun | self._seen.keys()
