"""How long a test waits: as long as something moves.

A limit in seconds fails when the machine has other work. So what is watched for is
progress: each change of what was seen starts the time again, and the time itself is far
longer than any step takes on a loaded machine. Only a failure waits for its end.
"""

import time
from collections.abc import Callable

IDLE_S = 120.0
"""Standing still for so long is a failure."""


STUCK_S = 600.0
"""A story on a loop of its own that takes so long will never end."""


class Patience:
    """True until what it is shown has not changed for ``idle_s`` seconds."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._seen: object = None
        self._end = time.monotonic() + idle_s

    def lasts(self, seen: object = None) -> bool:
        """Whether to go on, after a look that found ``seen``."""
        if seen != self._seen:
            self._seen = seen
            self._end = time.monotonic() + self._idle_s
        return time.monotonic() < self._end


def becomes_true(
    condition: Callable[[], object], idle_s: float = IDLE_S, pause_s: float = 0.02
) -> bool:
    """Whether ``condition`` becomes true while there is patience."""
    patience = Patience(idle_s)
    while not condition():
        if not patience.lasts():
            return False
        time.sleep(pause_s)
    return True


def wait_until(
    condition: Callable[[], object], idle_s: float = IDLE_S, pause_s: float = 0.02
) -> None:
    """Return when ``condition`` is true; AssertionError if it does not become so."""
    assert becomes_true(condition, idle_s, pause_s), "it never came true"
