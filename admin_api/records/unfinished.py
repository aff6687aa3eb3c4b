"""Objects of streams that are not whole yet: so much of all together, and in time.

The problem: a stream has no end and no limit, and an object in it may be long; who
opens many and finishes none fills the memory. The idea: what streams hold of unfinished
objects is counted together, and one that is more than short has to come at the pace of
other bodies. A short one may take its time, and is never refused for those of others.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from admin_api.bodies import ALL_BYTES_MAX, PACE_BYTES_S, SHORT_BYTES, SLOW_S
from admin_api.problems import Problem


@dataclass(slots=True)
class AllUnfinished:
    """What the streams hold together."""

    bytes_max: int = ALL_BYTES_MAX
    slow_s: float = SLOW_S
    bytes: int = 0


class Unfinished:
    """What one stream holds."""

    def __init__(self, everyones: AllUnfinished) -> None:
        self._all = everyones
        self._bytes = 0
        self._began_s: float | None = None

    def hold(self, size: int) -> None:
        """Count an object so far; 0 for none. Raises Problem 42901 if all together are
        too much."""
        self._all.bytes += size - self._bytes
        self._bytes = size
        if size <= SHORT_BYTES:
            self._began_s = None
        elif self._all.bytes > self._all.bytes_max:
            raise Problem(42901, "Too many records are being read; try again later.")
        elif self._began_s is None:
            self._began_s = asyncio.get_running_loop().time()

    async def next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        """The next chunk, None behind the last. Raises Problem 408 while an object that
        is more than short does not come in time."""
        try:
            async with asyncio.timeout_at(self._deadline_s()):
                return await anext(chunks, None)
        except TimeoutError:
            raise Problem(408, "The record did not come in time.") from None

    def _deadline_s(self) -> float | None:
        if self._began_s is None:
            return None
        return self._began_s + self._all.slow_s + self._bytes / PACE_BYTES_S
