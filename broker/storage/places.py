"""Where the segments of a log are kept, for those who ask that and nothing else.

Whoever wants to know whether there is a log at all, or whether what it was kept in is
gone, need not know what a segment's file is called.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.storage.manifest import NAME
from broker.storage.segment import slot_number

DAMAGED: Final = "damaged"


def has_log(directory: Path) -> bool:
    """Whether a log was ever kept here; also without its checkpoint: what is lost
    together with a catalog may be that."""
    if not directory.is_dir():
        return False
    return any(
        path.name == NAME or slot_number(path.name) is not None
        for path in directory.iterdir()
    )


def places(address: str) -> Mapping[str, int]:
    """Name of each place of segments at the address of a store -> a number that no
    other has that is made under this name later, as long as this one is there."""
    found = {}
    for path in Path(address).iterdir():
        if slot_number(path.name) is None:
            continue
        try:
            found[path.name] = path.stat().st_ino
        except FileNotFoundError:
            continue
    return found


def damaged_names(address: str) -> list[str]:
    """Names of what was put aside there as damaged, sorted."""
    return sorted(p.name for p in Path(address).iterdir() if DAMAGED in p.name)
