"""Where a log should begin: the oldest files that time or size no longer keep.

The problem: Kafka deletes a log's oldest segments by age and by size; here the oldest
records lie in the files of a table. The idea: the same rule with files for segments:
from the front, a file goes when all of it is older than ``retention.ms``, or when what
remains is still ``retention.bytes`` without it. What goes is decided from the index
alone; moving the log start and removing files is for others to do.

Records that stay in segments because nobody compacts them, or somebody cannot, follow
the same rule when all files are gone: what a sealed segment holds of the partition
counts as one file.

The price: sizes are those on disk, compressed; and a file leaves as a whole, so an
owner who merged all files into one keeps all of it until the youngest row is old.

Source: Kafka's ``UnifiedLog.deleteRetentionMsBreachedSegments`` and
``deleteRetentionSizeBreachedSegments``; ``LogSegment.largestTimestamp``: without a
timestamp (-1) the time of the last write counts. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lakehouse.log.actions import UNKNOWN_MIN, DataFile

UNLIMITED = -1


class InSegment(NamedTuple):
    """What one sealed segment holds of a partition; ``end`` is behind its last offset.

    ``newest_ms`` is -1 if no record is stamped; ``written_ms`` counts then.
    """

    end: int
    bytes: int
    newest_ms: int
    written_ms: int


class Kept(NamedTuple):
    """What a partition holds: its files by first offset, and what follows them."""

    files: Sequence[DataFile]
    log_start: int
    table_end: int
    bytes_in_segments: int = 0
    """Of records that are not in the table yet."""
    in_segments: Iterable[InSegment] = ()
    """Those that may go, from the table's end on, by offset; made as they are asked
    for, up to the first that stays."""


def new_log_start(
    kept: Kept, *, retention_ms: int, retention_bytes: int, now_ms: int
) -> int:
    """The offset at which the log should begin; never below where it begins.

    -1 as a limit means without limit. A file whose newest timestamp is unknown is kept.
    """
    limits = _Limits(retention_ms, retention_bytes, now_ms)
    files = [file for file in kept.files if file.last_offset >= kept.log_start]
    size = kept.bytes_in_segments + sum(file.size for file in files)
    gone = 0
    for file in files:
        newest_ms = _stamp(file.timestamp_max_ms, file.modified_ms)
        if not (file.is_bounded and limits.breached(newest_ms, size, file.size)):
            break
        size -= file.size
        gone += 1
    start = kept.log_start
    if gone:
        remaining = [file.first_offset for file in files[gone:]]
        start = max(start, min([*remaining, kept.table_end]))
    if gone == len(files):
        start = max(start, _end_of_gone(kept.in_segments, size, limits))
    return start


class _Limits(NamedTuple):
    retention_ms: int
    retention_bytes: int
    now_ms: int

    def breached(self, newest_ms: int, size: int, own: int) -> bool:
        """Whether something ``own`` bytes large is too old, or too much of ``size``."""
        if self.retention_ms != UNLIMITED and newest_ms < self.now_ms - (
            self.retention_ms
        ):
            return True
        return self.retention_bytes != UNLIMITED and size - own >= self.retention_bytes


def _stamp(newest_ms: int, written_ms: int) -> int:
    return newest_ms if newest_ms >= 0 or newest_ms == UNKNOWN_MIN else written_ms


def _end_of_gone(parts: Iterable[InSegment], size: int, limits: _Limits) -> int:
    end = 0
    for part in parts:
        newest_ms = _stamp(part.newest_ms, part.written_ms)
        if not limits.breached(newest_ms, size, part.bytes):
            break
        size -= part.bytes
        end = part.end
    return end
