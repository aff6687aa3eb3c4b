"""What merged files are called, and what that proves of those that they replaced. Pure.

The problem: what a merge replaced is to be deleted once nobody needs it for time
travel, and what an owner's OPTIMIZE replaced is not; but the log forgets who removed a
file, and that it was there at all, before that time is over. The idea: a name says
which offsets a file was made of, and a merged file's whether it was made of files of
the compactor's alone, each beginning where the one before ended. Then what lies in its
range, and is not in the table, was replaced by a merge: had an owner rewritten it, his
file would be in the way.

The name of a file that key compaction wrote says two things more (`Mark`). They stand
in the name because whatever an owner does with the rows (OPTIMIZE, UPDATE) gives them
another file, and RESTORE brings files back as they were: so what a mark says is true,
and one that is lost costs work. A ``txn`` would go on to say it of other rows.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from lakehouse.log.actions import DataFile
from lakehouse.new_file import partition_directory

OURS: Final = re.compile(r"partition=(\d+)/(\d{20})-(\d{20})-[0-9a-f-]+\.parquet")
"""What the compactor calls its files: partition, first offset, end."""
_MERGED: Final = re.compile(
    r"partition=\d+/\d{20}-\d{20}-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-([01])"
    r"(?:-([0-9a-f]+)-([0-9a-f]+))?\.parquet"
)

COPIED: Final = re.compile(r"partition=[^/]+/copied-[0-9a-f-]+\.parquet")
"""What an erasure calls its copies of an owner's files."""


class Mark(NamedTuple):
    """What is known of the rows of a cleaned file.

    ``end``: none of their keys has a later record below this offset. ``since_ms``: when
    the last of its tombstones was first in a range that was cleaned; 0: it has none.
    """

    end: int
    since_ms: int


def span_of(path: str) -> tuple[int, int, int] | None:
    """Partition, first offset and end of one of our files, as its name says; None: it
    is not ours."""
    match = OURS.fullmatch(path)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def mark_of(path: str) -> Mark | None:
    """What the name of a file says of its rows; None: nothing."""
    match = _MERGED.fullmatch(path)
    if match is None or match[2] is None:
        return None
    return Mark(int(match[2], 16), int(match[3], 16))


def merged_name(
    files: Sequence[DataFile], attempt: str, mark: Mark | None = None
) -> str:
    """The path of the file that these become. ``attempt``: three hexadecimal numbers
    with dashes between, which nobody else has. ``mark``: of what is cleaned; without
    it that of files which all have one."""
    mark = mark or _joined([mark_of(file.relative_path) for file in files])
    spans = [span_of(file.relative_path) for file in files]
    known = [span[1:] for span in spans if span is not None]
    is_pure = all(map(_is_pure, files)) and all(
        one[1] == other[0] for one, other in pairwise(known)
    )
    first = min([file.first_offset for file in files] + [span[0] for span in known])
    end = max([file.last_offset + 1 for file in files] + [span[1] for span in known])
    cleaned = "" if mark is None else f"-{mark.end:x}-{mark.since_ms:x}"
    name = f"{first:020d}-{end:020d}-{attempt}-{int(is_pure)}{cleaned}.parquet"
    return f"{partition_directory(files[0].partition)}/{name}"


def copied_name(partition: int, attempt: str) -> str:
    """The path of a file of an owner's rows as they are, which may be no records;
    ``attempt`` as above. It proves no more of them than a name of his."""
    return f"{partition_directory(partition)}/copied-{attempt}.parquet"


def continued(path: str, first: int) -> str:
    """The name of the file that goes on at ``first`` where the one at ``path`` grew
    too large: they say the same end, and prove nothing of what they were made of."""
    found = _MERGED.fullmatch(path)
    assert found is not None, "a merged file"
    at = _end_at(path)
    rest = f"{path[at - 1 : found.start(1)]}0{path[found.end(1) :]}"
    return f"{path[: at - 21]}{first:020d}{rest}"


def ended(path: str, end: int) -> str:
    """The name of the file at ``path`` once another goes on at ``end``: it stays on the
    disk no longer than the log needs what is below that."""
    at = _end_at(path)
    return f"{path[:at]}{end:020d}{path[at + 20 :]}"


def written_with(path: str) -> str:
    """What the names of all files of one merge have in common, and no others."""
    found = _MERGED.fullmatch(path)
    assert found is not None, "a merged file"
    return path[_end_at(path) + 20 : found.start(1)]


def _end_at(path: str) -> int:
    """Where the name of one of our files says its end."""
    return path.index("/") + 22


def _joined(marks: Sequence[Mark | None]) -> Mark | None:
    """What holds for the rows of all these files."""
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks):
        return None
    return Mark(min(m.end for m in known), max(m.since_ms for m in known))


def _is_pure(file: DataFile) -> bool:
    """Whether a file is a round's, or was made of such alone."""
    merged = _MERGED.fullmatch(file.relative_path)
    return span_of(file.relative_path) is not None and (not merged or merged[1] == "1")


class Replaced:
    """Knows which files of ours those of a table prove to have been merged."""

    def __init__(self, live: Iterable[str]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for path in live:
            merged, span = _MERGED.fullmatch(path), span_of(path)
            if span is not None and merged and merged[1] == "1":
                self._spans.setdefault(span[0], []).append(span[1:])
        for spans in self._spans.values():
            spans.sort()

    def __contains__(self, path: str) -> bool:
        """Whether a file that is not in the table lies in one that was merged."""
        span = span_of(path)
        if span is None:
            return False
        spans = self._spans.get(span[0], [])
        at = bisect_right(spans, (span[1], 1 << 63)) - 1
        return at >= 0 and span[2] <= spans[at][1]
