"""Reports of a stream that its client has not read yet.

The problem: a client may write all of its records before it reads the first report. If
its records waited for that, both sides would wait for ever. The idea: the records are
read on, and the reports wait here. They differ in little but an offset, so all but the
last are kept compressed, in a tenth of the room. The price: there is an end to it, and
who has not read by then is refused the rest. While all streams together hold as much as
they may, each has room again when its own client has read nearly all that waits for it.
"""

import asyncio
import zlib
from collections import deque
from dataclasses import dataclass, field

BYTES_MAX = 8 << 20
"""Of one stream, compressed: the reports of about half a million records."""
ALL_BYTES_MAX = 64 << 20
"""Of all streams together, compressed."""
STUCK_S = 30.0
"""So long nothing is read before a client whose backlog is full is given up."""
PART_BYTES = 64 << 10


@dataclass(slots=True)
class Held:
    """What the backlogs of all streams hold together."""

    bytes_max: int = ALL_BYTES_MAX
    bytes: int = 0
    backlogs: "set[Backlog]" = field(default_factory=set)

    def hold(self, more: int) -> None:
        """Count more bytes, or fewer; all hear of it when there is room again."""
        was_full = self.is_full
        self.bytes += more
        if was_full and not self.is_full:
            for backlog in self.backlogs:
                backlog.signal()

    @property
    def is_full(self) -> bool:
        """Whether they hold more than they may."""
        return self.bytes > self.bytes_max


class Backlog:
    """First in, first out; one puts and one takes."""

    def __init__(self, all_held: Held, bytes_max: int = BYTES_MAX) -> None:
        self._all = all_held
        all_held.backlogs.add(self)
        self._bytes_max = bytes_max
        self._parts: deque[bytes] = deque()
        self._last = bytearray()
        self._held = 0
        self._taken = 0
        self._ended = False
        self._filled, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    def put(self, report: bytes) -> None:
        """Keep a report, whether there is room or not."""
        self._last += report
        if len(self._last) >= PART_BYTES:
            part = zlib.compress(self._last, 1)
            self._parts.append(part)
            self._hold(len(part))
            self._last.clear()
        self.signal()

    def end(self) -> None:
        """Nothing is put any more."""
        self._ended = True
        self.signal()

    def forget(self) -> None:
        """Nothing is taken any more, nor put."""
        self._parts.clear()
        self._all.backlogs.discard(self)
        self._hold(-self._held)

    async def has_room(self, stuck_s: float) -> bool:
        """Wait for room; False if nothing was taken for so long."""
        while not self._room.is_set():
            taken = self._taken
            try:
                await asyncio.wait_for(self._room.wait(), stuck_s)
            except TimeoutError:
                if self._taken == taken:
                    return self._room.is_set()
        return True

    async def take(self) -> bytes | None:
        """Some of the oldest reports, as soon as there are any; None after the end."""
        await self._filled.wait()
        part: bytes | None = None
        if self._parts:
            compressed = self._parts.popleft()
            self._hold(-len(compressed))
            part = zlib.decompress(compressed)
        elif self._last:
            part = bytes(self._last)
            self._last.clear()
        self._taken += 1
        self.signal()
        return part

    def _hold(self, more: int) -> None:
        self._held += more
        self._all.hold(more)

    def signal(self) -> None:
        """Wake who waits for what there is now."""
        _set(self._filled, bool(self._parts or self._last or self._ended))
        full = self._all.is_full
        at_most = min(self._bytes_max, PART_BYTES) if full else self._bytes_max
        _set(self._room, self._held <= at_most)


def _set(event: asyncio.Event, state: bool) -> None:
    if state:
        event.set()
    else:
        event.clear()
