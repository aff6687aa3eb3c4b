"""Segments: what a slot (a file that is used again and again) holds at the moment."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.storage.columns import Ranges
from broker.storage.layout import HEADER_BLOCK_BYTES

_PREFIX: Final = "segment-"
_SUFFIX: Final = ".log"


class StaleSegment(Exception):
    """The segment was let go: its records are in the tables."""


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment as others see it.

    ``bytes``: end of its last durable entry in the file. ``ranges``: per partition
    the first offset and the one behind the last. Times in ms, 0 = not known.
    """

    sequence: int
    sealed: bool
    bytes: int
    ranges: Ranges
    created_ms: int = 0
    sealed_at_ms: int = 0
    path: Path = Path()


@dataclass(slots=True, eq=False)
class Slot:
    """An open segment file, whoever's it is.

    ``written``: how far its blocks were written at least once since it was made; of
    one that was found at start, nobody knows, and all is assumed.
    """

    number: int
    path: Path
    file: int
    size: int
    written: int = sys.maxsize


@dataclass(slots=True, eq=False)
class Segment:
    """One generation of a slot. The writer's thread changes it, others look.

    ``rows`` collects the footer while the segment is written. ``released``: nobody
    asks for it any more, but its slot is not free yet. ``intact``: no damage was
    found; the slot of a damaged one is put aside and not used again.
    """

    sequence: int
    slot: Slot
    created_ms: int
    end: int = HEADER_BLOCK_BYTES
    sealed_at_ms: int = 0
    sealed: bool = False
    released: bool = False
    intact: bool = True
    rows: bytearray = field(default_factory=bytearray)
    ranges: Ranges = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return self.end == HEADER_BLOCK_BYTES

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            self.sequence, self.sealed, self.end, dict(self.ranges),
            self.created_ms, self.sealed_at_ms, self.slot.path,
        )  # fmt: skip


def slot_name(number: int) -> str:
    return f"{_PREFIX}{number:04}{_SUFFIX}"


def slot_number(name: str) -> int | None:
    """The number in a slot's file name; None for other files."""
    middle = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    if name != f"{_PREFIX}{middle}{_SUFFIX}" or not middle.isdecimal():
        return None
    return int(middle)
