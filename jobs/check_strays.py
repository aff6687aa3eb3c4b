"""Tables among those of the topics that are no topic's: remarked, and left alone.

Whoever comes upon such a place may want it back, and a topic of its name, made later,
gets no table before it is moved away. What stands in the place of a topic that is there
is that topic's to report (`check_tables`). One that cannot be read, or goes meanwhile,
is none.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from lakehouse.location import directory_name
from lakehouse.log.delta_log import exists, load
from lakehouse.topic_facts import facts_of


def strays(warehouse: Path, topics: Iterable[str]) -> list[str]:
    """A sentence for each that is in the place of none of these topics, by the names of
    directories. Raises OSError if these cannot be listed."""
    taken = set(map(directory_name, topics))
    names = sorted(os.listdir(warehouse)) if warehouse.is_dir() else []
    found = (
        _remark(str(warehouse / name))
        for name in names
        if not name.startswith(".") and name not in taken
    )
    return [remark for remark in found if remark is not None]


def _remark(path: str) -> str | None:
    try:
        if not exists(path):
            return None
        facts = facts_of(load(path, keep_removed=False).configuration)
    except Exception:  # noqa: BLE001  (an owner may do anything)
        return None
    if facts is not None and os.path.basename(path) == directory_name(facts.name):
        return None
    what = f"a copy of the table of topic {facts.name}" if facts else "no topic's table"
    return (
        f"{path} is {what}, and is left alone: a topic of that name waits until it is "
        "moved away"
    )
