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
start or before a segment that was released, is taken for a lost one.
"""

from collections.abc import Collection
from itertools import pairwise

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
