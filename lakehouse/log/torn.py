"""Whether entries of a log are torn, behind one that is.

The problem: an owner's tools sync no entry, so a power cut may tear all those that he
made last. The idea: who makes an entry has read those before it. So what stands behind
one of which a part is there, and is torn too, was lost with it, while one whole entry
there says that this one was whole once, and is damaged. And so does anything behind a
first one: a table of which nothing is whole is not one that was never made.

An empty one is another matter: Delta's readers take it for a version without actions,
and read on, and commit behind it (`lakehouse.log.blank`). Nothing is empty but what
has no bytes, or white space alone; zeros are not.
"""

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from lakehouse.errors import LogDamaged
from lakehouse.log.actions import parse_commit
from lakehouse.regular import open_entry

_BLANK_MAX: Final = 4096
"""Longer ones are not looked at: nobody writes so much white space."""


def is_blank(entry: str) -> bool:
    """Whether the file at this path is there, and is empty."""
    try:
        if os.stat(entry).st_size > _BLANK_MAX:
            return False
        with open_entry(entry) as file:
            return not file.read().strip()
    except (OSError, LogDamaged):
        return False


def are_torn(entries: Iterable[str]) -> bool:
    """Whether all files at these paths are; one that went meanwhile was one."""
    return not any(map(_is_whole, entries))


def _is_whole(entry: str) -> bool:
    """Whether it is, whatever it says; what is no file is no torn entry either."""
    try:
        status = os.stat(entry)
        _parse(entry, status.st_ino, status.st_mtime_ns, status.st_size)
    except (FileNotFoundError, ValueError):
        return False
    except LogDamaged:
        return True
    return True


@lru_cache(maxsize=16)
def _parse(entry: str, *_mark: int) -> None:
    """Once, if it is whole and as long as it is the same file: many actions take
    seconds, and who follows the log asks each time that it looks."""
    with open_entry(entry) as file:
        parse_commit(0, file.read())
