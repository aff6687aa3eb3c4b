"""Segments that should be there, and whose files are not.

The problem. A file that is gone says nothing. What lies between two batches of a
partition, whose segments are there, then looks like batches that were refused, and that
is passed over, by a start and by the compactor, which commits a range over it.

The idea. Numbers tell. The manifest lists what is alive, each of the writer's numbers
above it was begun, and so was that of the committed position. Where the manifest itself
is lost, a number that is missing between two others may have been released, or left out
by a start: there the offsets decide (`broker.log.lost`), and nothing is called lost but
what no table has. Behind the last of them the committed position tells whether another
was begun; where it tells nothing, one may have been.

The price. With a lost manifest a batch that was refused last in its segment, before a
start or before a segment that was released, is taken for a lost one. And a manifest
that is an older copy makes all that was released since look lost: that is one line, for
it may be a hundred thousand.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from broker.storage.committed_position import CommittedPosition
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import Manifest
from broker.storage.segment import STEP, even_from


def missing_segments(
    manifest: Manifest,
    committed_position: CommittedPosition | None,
    present: Collection[int],
) -> set[int]:
    """Numbers of segments that were never released and are not among ``present``."""
    expected, begun = set(manifest.live), max(present, default=0)
    if committed_position is not None:
        noted = committed_position.sequence
        # What was only written a power cut may take whole.
        held_any = committed_position.durable_end(noted) > HEADER_BLOCK_BYTES
        begun = max(begun, noted if held_any else noted - 1)
        if held_any and manifest.counts(noted):
            expected.add(noted)
    if manifest.known:
        # A start leaves one sequence out, but writes so into the manifest.
        since = range(manifest.known + 1, begun + 1)
        expected |= {each for each in since if manifest.counts(each)}
    return expected - set(present)


def unexplained_numbers(
    present: Collection[int], committed_position: CommittedPosition | None
) -> set[int]:
    """Of the writer's numbers the first that is missing between each two of these, and
    behind the last, up to the committed position; without one, that behind the last."""
    if not present:
        return set()
    last = max(present)
    begun = last + STEP if committed_position is None else committed_position.sequence
    pairs = pairwise([*sorted(present), max(last, begun) + 1])
    firsts = ((even_from(before + 1), after) for before, after in pairs)
    return {first for first, after in firsts if first < after}


class Run(NamedTuple):
    """Missing segments that follow each other, with none that is there between."""

    first: int
    last: int

    def __str__(self) -> str:
        if self.is_one:
            return f"segment {self.first}"
        return f"segments {self.first} to {self.last}"

    @property
    def is_one(self) -> bool:
        return self.first == self.last

    def lack(self, manifest: Manifest) -> str:
        """That its files are not there, and what else that may mean."""
        if self.is_one:
            return "its file is missing"
        is_since = 0 < manifest.known < self.last
        other = ", or the checkpoint is an older copy" if is_since else ""
        return f"their files are missing{other}"


def runs_of(missing: Collection[int], present: Collection[int]) -> list[Run]:
    """Ascending; of numbers of which none is among ``present``."""
    runs: list[Run] = []
    for number in sorted(missing):
        if runs and _follows(number, runs[-1].last, present):
            runs[-1] = Run(runs[-1].first, number)
        else:
            runs.append(Run(number, number))
    return runs


def _follows(number: int, last: int, present: Collection[int]) -> bool:
    """A carried segment may lie between two of the writer's."""
    return number - last <= STEP and last + 1 not in present


def lost_texts(
    missing: Collection[int], present: Collection[int], manifest: Manifest
) -> list[str]:
    """That they are lost, for people. Until there is a checkpoint it may be that one
    was lost, and with it which segments were released."""
    texts = []
    for run in runs_of(missing, present):
        lost, released = ("is lost", "was") if run.is_one else ("are lost", "were")
        why = run.lack(manifest)
        if manifest.payload is None:
            lost = f"{lost} or {released} released"
            why += ", and there is no checkpoint yet that would tell"
        texts.append(f"{run} {lost}: {why}")
    return texts
