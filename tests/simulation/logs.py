"""What the broker logs during a run, kept instead of written."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import structlog

Entry = dict[str, Any]


@contextlib.contextmanager
def kept_logs() -> Iterator[list[Entry]]:
    """The entries of the log; ``trace``: where an exception came from."""
    entries: list[Entry] = []

    def keep(_logger: Any, level: str, entry: Any) -> Any:
        error = entry.pop("exc_info", None)
        if error:
            kept = error if isinstance(error, BaseException) else None
            lines = (
                traceback.format_exception(kept) if kept else [traceback.format_exc()]
            )
            entry["trace"] = "".join(lines)
        entries.append({"level": level, **entry})
        raise structlog.DropEvent

    processors = structlog.get_config()["processors"]
    before = processors.copy()
    processors.clear()  # in place: loggers that are bound already share the list
    processors.append(keep)
    try:
        yield entries
    finally:
        processors.clear()
        processors.extend(before)
