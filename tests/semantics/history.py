"""What clients asked and were told, line by line: written as it happens, judged later.

One file per process, one JSON object per line, one write per line: a process that is
killed leaves all that it knew. ``t`` is the machine's monotonic clock in nanoseconds,
which all processes share, so that the lines of all files have one order. Of a line
about an answer ``asked`` is when its question left.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def now() -> int:
    """The clock that all processes share, in nanoseconds."""
    return time.monotonic_ns()


class Recorder:
    """The lines of one participant. For any thread."""

    def __init__(self, path: Path, who: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o644)
        self._who = who

    def note(self, what: str, **facts: Any) -> int:
        """Write down what happened just now; when that was."""
        t = now()
        line = {"t": t, "what": what, "who": self._who, **facts}
        os.write(self._file, json.dumps(line).encode() + b"\n")
        return t

    def close(self) -> None:
        os.close(self._file)


def read(paths: Iterable[Path]) -> list[Event]:
    """All lines in their order; a last line that is cut off was never finished."""
    events: list[Event] = []
    for path in paths:
        lines = path.read_bytes().split(b"\n")
        assert all(lines[:-1]), f"{path} has an empty line"
        events += [json.loads(line) for line in lines[:-1]]
    return sorted(events, key=lambda event: event["t"])
