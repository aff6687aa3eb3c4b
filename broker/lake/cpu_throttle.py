"""Cold work stands back where it would be felt.

The problem: a consumer that reads old data keeps cores busy with rebuilding batches. On
a machine that has no core left, producers then wait behind it, for the processor and
for the interpreter: an acknowledgement takes four milliseconds instead of one half. The
idea: a thread that was kept waiting for the processor (its clock ran on while its
own processor time did not) is on such a machine. While the log is being written it lets
go of the processor for a multiple of that before the next slot, but never for longer
than the last slot took: so it keeps half of its speed. Where cores are idle nobody
waits, and nothing is held back.

The price: waiting for a slow disk looks the same.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

TIMES: Final = 6.0
REST_MAX_S: Final = 0.1


class CpuThrottle:
    """Shared by the threads that do cold work; ``is_due``: whether others work now."""

    def __init__(
        self,
        is_due: Callable[[], bool],
        clock_s: Callable[[], float] = time.perf_counter,
        processor_s: Callable[[], float] = time.thread_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._is_due = is_due
        self._clock_s = clock_s
        self._processor_s = processor_s
        self._rest = rest
        self._resting_until_s = 0.0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Run one slice of work, after the pause that the last one calls for."""
        rest_s = self._resting_until_s - self._clock_s()
        if rest_s > 0 and self._is_due():
            self._rest(rest_s)
        began_s, used_s = self._clock_s(), self._processor_s()
        try:
            yield
        finally:
            ended_s = self._clock_s()
            took_s = ended_s - began_s
            waited_s = took_s - (self._processor_s() - used_s)
            rest_s = min(max(TIMES * waited_s, 0.0), took_s, REST_MAX_S)
            self._resting_until_s = ended_s + rest_s
