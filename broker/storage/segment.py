"""Segments: what a slot (a file that is used again and again) holds at the moment."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.storage.columns import Ranges
from broker.storage.layout import HEADER_BLOCK_BYTES

STEP: Final = 2
"""The writer's segments have even sequence numbers. The odd one behind each is for what
is carried out of it and of those before it (`carry.py`): so a location that is greater
lies behind, whatever was moved."""

_PREFIX: Final = "segment-"
_SUFFIX: Final = ".log"


class StaleSegment(Exception):
    """The segment was released: its records are in the tables."""


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A segment as others see it.

    ``bytes``: end of its last durable entry in the file. ``ranges``: per partition
    the first offset and the one behind the last. Times in ms, 0 = not known.
    ``batches``: how many it has, 0 as long as it is written.
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
    found; the slot of a damaged one is put aside and not used again. ``carried``: it
    holds what is needed of others. ``replaced``: what is needed of it, another holds.
    """

    sequence: int
    slot: Slot
    created_ms: int
    end: int = HEADER_BLOCK_BYTES
    sealed_at_ms: int = 0
    sealed: bool = False
    released: bool = False
    intact: bool = True
    carried: bool = False
    replaced: bool = False
    batches: int = 0
    rows: bytearray = field(default_factory=bytearray)
    ranges: Ranges = field(default_factory=dict)
    _info: SegmentInfo | None = None

    @property
    def empty(self) -> bool:
        return self.end == HEADER_BLOCK_BYTES

    def found_damaged(self) -> None:
        """It is not whole: its slot is not used again."""
        self.intact, self._info = False, None

    def info(self) -> SegmentInfo:
        """How others see it: a copy while it is written, then one for good."""
        if self._info is None:
            sealed = self.sealed  # before the rest: the writer's thread may seal it
            info = SegmentInfo(
                self.sequence, sealed, self.end, dict(self.ranges),
                self.created_ms, self.sealed_at_ms, self.slot.path, self.intact,
                self.batches,
            )  # fmt: skip
            if not sealed:
                return info
            self._info = info
        return self._info


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
