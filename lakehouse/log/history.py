"""Which version of a table brought an offset: the way from the log to time travel.

The problem: a table of a month has a million log entries. The idea: a partition's end
only grows, so the entry that brought an offset is found by bisection; where an entry
says nothing of the partition, those before it are asked. The price: for a partition
that hardly ever gets a record many are asked, so their number is bounded.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakehouse.ends import counted, ends_of
from lakehouse.errors import HistoryTooLong, LogDamaged
from lakehouse.log.actions import parse_commit
from lakehouse.log.delta_log import entry_versions, oldest_version, read_entry
from lakehouse.properties import partition_application

ENTRIES_MAX: Final = 10_000
"""Some seconds of reading."""


class Round(NamedTuple):
    """A commit that added [first_offset, end_offset) of a partition."""

    version: int
    first_offset: int
    end_offset: int


def round_of(
    path: str,
    topic_id: str,
    partition: int,
    offset: int,
    entries_max: int = ENTRIES_MAX,
) -> Round | None:
    """The oldest commit in the log that ends the partition above ``offset``.

    It holds the offset, unless the entry that does is not in the log any more; None if
    the log knows no such commit. An entry below the oldest state that the log can tell
    is not asked: nobody can go there, and it may be part of no table. Raises
    HistoryTooLong when too many entries would have to be read, LogDamaged when one of
    them cannot be.
    """
    rounds = _Rounds(path, topic_id, partition, entries_max)
    oldest = oldest_version(path) or 0
    versions = [version for version in entry_versions(path) if version >= oldest]
    low, high = 0, len(versions)
    best: Round | None = None
    while low < high:
        middle = (low + high) // 2
        found = rounds.last_of(versions[low : middle + 1])
        if found is None or found[1].end_offset <= offset:
            low = middle + 1
        else:
            high, best = low + found[0], found[1]
    return best


class _Rounds:
    """Reads entries, but not more than ``left``."""

    def __init__(self, path: str, topic_id: str, partition: int, left: int) -> None:
        self._path, self._topic_id, self._partition = path, topic_id, partition
        self._named = partition_application(topic_id, partition).encode()
        self._most = self._left = left

    def last_of(self, versions: Sequence[int]) -> tuple[int, Round] | None:
        """The last of these entries that moves the partition's end; its index first."""
        for index in range(len(versions) - 1, -1, -1):
            found = self._round(versions[index])
            if found is not None:
                return index, found
        return None

    def _round(self, version: int) -> Round | None:
        if not self._left:
            raise HistoryTooLong(
                f"{self._path}: partition {self._partition} is not in {self._most} "
                "log entries that were looked at"
            )
        self._left -= 1
        try:
            text = read_entry(self._path, version)
            if self._named not in text:
                return None
            commit = parse_commit(version, text)
        except FileNotFoundError:
            return None  # cleaned away meanwhile: it is older than what is left
        except ValueError as error:
            raise LogDamaged(f"{self._path}: entry {version}: {error}") from error
        end = ends_of(counted(commit, {}), self._topic_id).get(self._partition)
        if end is None:
            return None
        return Round(version, commit.ranges[self._partition][0], end)
