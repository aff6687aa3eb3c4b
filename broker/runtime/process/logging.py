"""Structured logs on standard error: lines for people, or JSON for tools.

Standard output belongs to the few lines that scripts wait for. What comes from outside
(a client id, a topic's name) may hold line breaks or escape sequences; no value can
forge a second line, in either format. Nobody who says something waits for those who
read it, nor fails by it (`line_output.py`).

The last lines stay in memory, for whoever asks what happened before; how much each
logger says can be changed (`levels.py`).
"""

import sys
from collections import deque
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TextIO

import structlog

from broker.runtime.process.levels import ROOT, LeveledLogger, Levels, NamedLogger
from broker.runtime.process.line_output import LineOutput
from broker.settings import Settings

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_IN_TRACEBACK = {code: text for code, text in _CONTROL.items() if chr(code) != "\n"}
_TEXT_MAX = 8_192
KEPT_LINES: Final = 1_000
_KEPT_CHARACTERS: Final = 2_048

recent: deque[str] = deque(maxlen=KEPT_LINES)
"""What was said last, each event cut to 2 KiB."""
levels = Levels("info")
"""Of this process; `configure_logging` sets the one that it starts with."""

Event = MutableMapping[str, Any]


def configure_logging(settings: Settings) -> None:
    """Set up structlog for this process, once, before anything is said."""
    as_json = settings.log.format == "json"
    levels.change(ROOT, settings.log.level)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _one_line,
            structlog.processors.JSONRenderer(default=str) if as_json else _text,
            _keep,
        ],
        wrapper_class=LeveledLogger,
        logger_factory=partial(_named, _writing_to(sys.stderr)),
        cache_logger_on_first_use=True,
    )


def _named(write: Callable[[str], object], *names: str) -> NamedLogger:
    return NamedLogger(names[0] if names else ROOT, levels, write)


def _writing_to(stream: TextIO) -> Callable[[str], object]:
    """Writes text to the stream's file, without waiting; to itself if it has none."""
    output = LineOutput.of(stream, _report_lost)
    if output is None:
        return partial(_write_if_open, stream)
    encoding = stream.encoding
    return lambda text: output.write(text.encode(encoding, "backslashreplace"))


def _write_if_open(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):  # it has been closed
        stream.write(text)


def _report_lost(count: int) -> None:
    structlog.get_logger(ROOT).error(
        "lines of the log were lost", count=count, why="nobody read them in time"
    )


def _keep(_logger: Any, _method: str, line: Any) -> str:
    """Remember what is said."""
    text = str(line)
    recent.append(text[:_KEPT_CHARACTERS])
    return text


def _one_line(_logger: Any, _method: str, event: Event) -> Event:
    """Escape what could break a line; our own tracebacks have several of them."""
    for key, value in event.items():
        if isinstance(value, str) and key == "exception":
            event[key] = value.translate(_IN_TRACEBACK)
        elif isinstance(value, str):
            event[key] = value[:_TEXT_MAX].translate(_CONTROL)
    return event


def _text(_logger: Any, _method: str, event: Event) -> str:
    """``12:00:00.000 info  what happened  key=value``, and a traceback below it."""
    time = str(event.pop("timestamp"))[11:23]
    level, what = event.pop("level"), event.pop("event")
    exception = event.pop("exception", None)
    facts = "  ".join(f"{key}={value}" for key, value in event.items())
    line = f"{time} {level:<7} {what}  {facts}".rstrip()
    return f"{line}\n{exception}" if exception else line
