"""Where each thread of this process is now."""

import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, Final

_FRAMES_MAX: Final = 60


def stacks() -> Iterator[dict[str, Any]]:
    """A row for each thread: its name, and places in the code; no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        found = traceback.extract_stack(frame, _FRAMES_MAX)
        places = [f"{one.filename}:{one.lineno} {one.name}" for one in found]
        yield {"thread": names.get(ident, str(ident)), "stack": places}
