"""Segments: what a slot (a file that is used again and again) holds at the moment."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from broker.storage.ranges import Ranges

STEP: Final = 2
"""The writer's segments have even sequence numbers. The odd one behind each is for what
is carried out of it and of those before it (`carry.py`): so a location that is greater
lies behind, whatever was moved."""

FIRST: Final = 2 * STEP
"""What a new log begins with: a start leaves one number out."""

_PREFIX: Final = "segment-"
_SUFFIX: Final = ".log"


Holes = tuple[tuple[int, int], ...]
"""Bytes [start, end) of a segment that are damaged, ascending."""


class DamagedExtent(NamedTuple):
    """Where the entries of a damaged segment end that will never be sealed, and which
    places before that are damaged, as the start saw it that found it so."""

    end: int
    holes: Holes = ()


class StaleSegment(Exception):
    """The segment was released: its records are in the tables."""


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment as others see it.

    ``bytes``: end of its last durable entry in the file. ``ranges``: per partition
    the first offset and the one behind the last. Times in ms, 0 = not known.
    ``intact``: no damage was found. ``batches``: how many it has, 0 as long as it is
    written.
    """

    sequence: int
    sealed: bool
    bytes: int
    ranges: Ranges
    created_ms: int = 0
    sealed_at_ms: int = 0
    path: Path = Path()
    intact: bool = True
    batches: int = 0


@dataclass(slots=True, eq=False)
class Slot:
    """An open segment file, whoever's it is: the pool's, then a segment's, and again.

    ``written``: how far its blocks were written at least once since it was made; of
    one that was found at start, nobody knows, and all is assumed. Only who has the
    slot changes it.
    """

    number: int
    path: Path
    file: int
    size: int
    written: int = sys.maxsize


@dataclass(frozen=True, slots=True, eq=False)
class SealedSegment:
    """One generation of a slot, to which nothing is written any more.

    It does not change, so any thread may look at it; what becomes of it is known to the
    `SegmentRegistry`. ``carried``: it holds what is needed of others.
    """

    slot: Slot
    info: SegmentInfo
    carried: bool = False

    @property
    def sequence(self) -> int:
        return self.info.sequence


def even_from(sequence: int) -> int:
    """The first of the writer's numbers that is not below ``sequence``."""
    return sequence + sequence % STEP


def is_odd(sequence: int) -> bool:
    """Whether it is a number for carried batches (or one of the first version's)."""
    return sequence % STEP == 1


def slot_name(number: int) -> str:
    return f"{_PREFIX}{number:04}{_SUFFIX}"


def slot_number(name: str) -> int | None:
    """The number in a slot's file name; None for other files."""
    middle = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    if name != f"{_PREFIX}{middle}{_SUFFIX}" or not middle.isdecimal():
        return None
    return int(middle)
