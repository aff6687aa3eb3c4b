"""What uvicorn, asyncio and librdkafka's callbacks log, in the one format of ours.

A traceback of theirs ends with the exception's own words, and these may quote what a
client sent. So it is logged as places in the code and kinds of exceptions.
"""

import logging
import traceback
from typing import Final

import structlog

_CHAIN_MAX: Final = 5


class ToStructlog(logging.Handler):
    """Gives each record of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log it as an event of its logger's name."""
        said = structlog.get_logger("lakelog.admin")
        facts = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            said.log(record.levelno, record.getMessage(), **facts)
            return
        # the message of asyncio's and uvicorn's handlers repeats the exception
        event = record.getMessage().partition("\n")[0]
        said.log(record.levelno, event, **facts, exception=places(error))


def places(error: BaseException) -> str:
    """Where an exception and those before it were raised, without their words."""
    lines: list[str] = []
    at: BaseException | None = error
    while at is not None and len(lines) < _CHAIN_MAX:
        frames = "".join(traceback.format_tb(at.__traceback__))
        lines.append(f"{frames}{type(at).__module__}.{type(at).__qualname__}")
        at = at.__cause__ or at.__context__
    return "\n".join(reversed(lines))


def capture() -> None:
    """Let the standard library's loggers write through structlog, warnings and up."""
    root = logging.getLogger()
    root.handlers[:] = [ToStructlog()]
    root.setLevel(logging.WARNING)
