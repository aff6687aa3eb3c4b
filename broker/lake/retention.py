"""Where a log should begin: the oldest files that time or size no longer keep.

The problem: Kafka deletes a log's oldest segments by age and by size; here the oldest
records lie in the files of a table. The idea: the same rule with files for segments:
from the front, a file goes when all of it is older than ``retention.ms``, or when what
remains is still ``retention.bytes`` without it. What goes is decided from the index
alone; moving the log start and removing files is for others to do.

The price: sizes are those on disk, compressed; and a file leaves as a whole, so an
owner who merged all files into one keeps all of it until the youngest row is old.

Source: Kafka's ``UnifiedLog.deleteRetentionMsBreachedSegments`` and
``deleteRetentionSizeBreachedSegments``. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.actions import DataFile

UNLIMITED = -1


class Kept(NamedTuple):
    """What a partition holds: its files by first offset, and what follows them."""

    files: Sequence[DataFile]
    log_start: int
    table_end: int
    bytes_in_segments: int = 0
    """Of records that are not in the table yet."""


def new_log_start(
    kept: Kept, *, retention_ms: int, retention_bytes: int, now_ms: int
) -> int:
    """The offset at which the log should begin; never below where it begins.

    -1 as a limit means without limit. A file whose newest timestamp is unknown is kept.
    """
    files = [file for file in kept.files if file.last_offset >= kept.log_start]
    oldest_ms = None if retention_ms == UNLIMITED else now_ms - retention_ms
    size = kept.bytes_in_segments + sum(file.size for file in files)
    gone = 0
    for file in files:
        too_old = oldest_ms is not None and file.timestamp_max_ms < oldest_ms
        too_much = retention_bytes != UNLIMITED and size - file.size >= retention_bytes
        if not (file.is_bounded and (too_old or too_much)):
            break
        size -= file.size
        gone += 1
    if gone == 0:
        return kept.log_start
    remaining = [file.first_offset for file in files[gone:]]
    start = min(remaining, default=kept.table_end)
    return max(kept.log_start, min(start, kept.table_end))
