"""How far a tail has come, and where it does not go on although more is there.

A consumer says when it has read a partition to its end. One that it did not, and that
brings nothing for some seconds, may stand before a file of the table that is gone: the
broker has no records to send and librdkafka tries again in silence.
"""

from collections.abc import Callable, Mapping
from typing import Final

STALLED_MS: Final = 4_000


class Progress:
    """The partitions that were not read to their ends, from which offset on."""

    def __init__(self, starts: Mapping[int, int], now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._behind = {number: (at, now_ms()) for number, at in starts.items()}

    def came_to(self, partition: int, offset: int, *, is_end: bool) -> None:
        """What lies below the offset was read; any thread."""
        if is_end:
            self._behind.pop(partition, None)
        else:
            self._behind[partition] = offset, self._now_ms()

    def stalled(self) -> dict[int, int]:
        """Partition -> offset, of those that did not move for so long; each is told
        again as long after that."""
        now_ms = self._now_ms()
        found = {
            number: at
            for number, (at, since_ms) in list(self._behind.items())
            if now_ms - since_ms >= STALLED_MS
        }
        self._behind |= {number: (at, now_ms) for number, at in found.items()}
        return found
