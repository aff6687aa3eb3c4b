"""Tables among those of the topics that are no topic's: remarked, and left alone.

Whoever comes upon such a place may want it back, and a topic of its name, made later,
gets no table before it is moved away. One that cannot be read is its topic's to report
(`check_tables`), and one that goes meanwhile is none.
"""

import os
from pathlib import Path

from lakehouse.location import directory_name, is_set_aside
from lakehouse.log.delta_log import exists, load
from lakehouse.topic_facts import facts_of


def strays(warehouse: Path) -> list[str]:
    """A sentence for each, by the names of directories. Raises OSError if these cannot
    be listed."""
    names = sorted(os.listdir(warehouse)) if warehouse.is_dir() else []
    found = (
        _remark(str(warehouse / name))
        for name in names
        if not name.startswith(".") and not is_set_aside(name)
    )
    return [remark for remark in found if remark is not None]


def _remark(path: str) -> str | None:
    try:
        if not exists(path):
            return None
        facts = facts_of(load(path, keep_removed=False).configuration)
    except Exception:  # noqa: BLE001  (an owner may do anything)
        return None
    if facts is None:
        return (
            f"{path} is no topic's table, and is left alone: a topic of that name "
            "waits until it is moved away"
        )
    if os.path.basename(path) != directory_name(facts.name):
        return f"{path} is a copy of the table of topic {facts.name}, and is left alone"
    return None
