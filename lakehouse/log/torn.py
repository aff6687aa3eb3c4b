"""Whether entries of a log are torn, behind one that is.

The problem: an owner's tools sync no entry, so a power cut may tear all those that he
made last, and then nobody opens his table. The idea: who makes an entry has read those
before it. So what stands behind a torn entry and is torn too was lost with it, while
one whole entry there says that this one was whole once, and is damaged.
"""

from collections.abc import Iterable

from lakehouse.errors import LogDamaged
from lakehouse.log.actions import parse_commit
from lakehouse.regular import open_entry


def are_torn(entries: Iterable[str]) -> bool:
    """Whether all files at these paths are; one that went meanwhile was one."""
    return not any(map(_is_whole, entries))


def _is_whole(entry: str) -> bool:
    """Whether it is, whatever it says; what is no file is no torn entry either."""
    try:
        with open_entry(entry) as file:
            parse_commit(0, file.read())
    except (FileNotFoundError, ValueError):
        return False
    except LogDamaged:
        return True
    return True
