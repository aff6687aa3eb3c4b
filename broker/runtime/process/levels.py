"""What each logger says at least, changed while the process runs.

structlog fixes a level when it is configured. Here a logger looks its own up at each
call, which is one look into a dictionary: `lakelog.network` may say everything for a
minute, and nobody restarts a broker for it. The names are fixed, so that nobody can
make up new ones without end.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import structlog

ROOT: Final = "lakelog"
OF_BROKER: Final = tuple(
    f"{ROOT}.{part}"
    for part in (
        "broker", "catalog", "groups", "internal", "lake", "maintenance", "network",
        "reads", "restore", "status", "storage", "timers", "transactions",
    )
)  # fmt: skip
"""Every logger of the broker's process; a test compares them with the sources."""
OF_COMPACTOR: Final = (f"{ROOT}.compactor",)
OF_PLANE: Final = (f"{ROOT}.admin",)
NAMES: Final = ("debug", "info", "warning", "error")
"""What a level may be changed to: what is critical is never silent."""


class Levels:
    """The least that each logger of this process says."""

    def __init__(self, default: str) -> None:
        self._default = _number(default)
        self._own: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The least number of a level that is said by the logger of this name."""
        return self._own.get(name, self._default)

    def name_of(self, name: str) -> str:
        """The same as a word."""
        return logging.getLevelName(self.of(name)).lower()

    def change(self, name: str, level: str) -> None:
        """Let a logger say this and above; the root's name means all of them."""
        if name == ROOT:
            self._own.clear()
            self._default = _number(level)
        else:
            self._own[name] = _number(level)

    def reset(self, name: str) -> None:
        """Let a logger say what those say that nobody has changed."""
        self._own.pop(name, None)


class NamedLogger:
    """Writes lines, each with its end; knows its name and what it says."""

    def __init__(
        self, name: str, levels: Levels, write: Callable[[str], object]
    ) -> None:
        self.name, self.levels, self._write = name, levels, write

    def msg(self, message: str) -> None:
        self._write(f"{message}\n")

    debug = info = warning = error = critical = msg


class LeveledLogger(structlog.BoundLoggerBase):
    """The methods of a logger, each silent below the level of now."""

    def debug(self, event: str, /, **facts: Any) -> None:
        self.log(logging.DEBUG, event, **facts)

    def info(self, event: str, /, **facts: Any) -> None:
        self.log(logging.INFO, event, **facts)

    def warning(self, event: str, /, **facts: Any) -> None:
        self.log(logging.WARNING, event, **facts)

    def error(self, event: str, /, **facts: Any) -> None:
        self.log(logging.ERROR, event, **facts)

    def critical(self, event: str, /, **facts: Any) -> None:
        self.log(logging.CRITICAL, event, **facts)

    def exception(self, event: str, /, **facts: Any) -> None:
        self.log(logging.ERROR, event, **({"exc_info": True} | facts))

    def log(self, level: int, event: str, /, **facts: Any) -> None:
        """Say it if the logger says so much now."""
        logger: NamedLogger = self._logger
        if level >= logger.levels.of(logger.name):
            self._proxy_to_logger(_method(level), event, **facts)


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _method(level: int) -> str:
    if level >= logging.CRITICAL:
        return "critical"
    return NAMES[max(0, min(level // 10, len(NAMES)) - 1)]
