"""Reading batches back, by where they lie: from memory, or from their segment's file.

The problem. A consumer at the tail asks for what is in the page cache, thousands of
times a second; one that is behind asks for what may be on the disk, and the loop must
not wait for that.

The idea. `view` and `views` answer on the loop, without copying, what the cache knows
to be in memory. What it does not is read by `read`, on a thread, and verified: it may
be of another process, or the disk may have changed it.

The price. A batch that was read is copied; one that is seen was verified when it came.
"""

from bisect import bisect_left
from collections.abc import Sequence

from broker.protocol.errors import KafkaError
from broker.storage.cache import SegmentCache
from broker.storage.entry import location_of, position_of, sequence_of
from broker.storage.files import Files
from broker.storage.scan import read_batch
from broker.storage.segment import StaleSegment
from broker.storage.segment_registry import SegmentRegistry


class BatchReader:
    """Of all segments of a log. `read` is for any thread, the others for the loop's."""

    def __init__(
        self, files: Files, segments: SegmentRegistry, cache: SegmentCache
    ) -> None:
        self._files = files
        self._segments = segments
        self._cache = cache

    def view(self, location: int, length: int) -> memoryview | None:
        """The batch at ``location``, not copied; None if it is not in memory."""
        sequence = sequence_of(location)
        return self._cache.view(sequence, position_of(location), length)

    def views(self, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The first of these batches (location, length), not copied: as many as can be
        had from memory at once. Locations ascend."""
        views: list[memoryview] = []
        at = 0
        while at < len(spans):
            location = spans[at][0]
            sequence = sequence_of(location)
            after = bisect_left(spans, (location_of(sequence + 1, 0), 0), at)
            last, length = spans[after - 1]
            end = position_of(last) + length
            whole = self._cache.run(sequence, position_of(location), end)
            if whole is None:
                break
            base = location_of(sequence, 0)
            try:
                views += [
                    whole[place - base : place - base + size]
                    for place, size in spans[at:after]
                ]
            except ValueError:  # it left meanwhile
                break
            at = after
        self._cache.touch(spans[:at])
        return views

    def rest(self) -> None:
        """Give back the memory of segments that nobody needs just now."""
        self._cache.rest()

    def read(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The batches at these (location, length), read and verified. Blocks.

        It ends before a batch that is not what was written, or cannot be read. If that
        is the first one, raises KafkaError CORRUPT_MESSAGE or OSError; StaleSegment if
        one was released (look in the tables).
        """
        found: list[bytes] = []
        for location, length in spans:
            try:
                found.append(self._read(location, length))
            except (KafkaError, OSError):
                if not found:
                    raise
                break
        return found

    def _read(self, location: int, length: int) -> bytes:
        sequence = sequence_of(location)
        segment = self._segments.readable(sequence)
        if segment is None:
            raise StaleSegment(sequence)
        try:
            return read_batch(self._files, segment.slot.file, location, length)
        finally:
            # Its file may have been used again meanwhile.
            if self._segments.readable(sequence) is None:
                raise StaleSegment(sequence)
