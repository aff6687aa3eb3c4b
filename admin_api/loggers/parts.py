"""The loggers of all parts, each in its own process.

The broker and the compactor are asked on their internal endpoints; the plane's own are
here. The root's name stands for the loggers of all of them. A compactor that does not
run has none, and so has a plane that was given none.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from admin_api.internal import Internal
from admin_api.loggers.schemas import Level, Logger
from admin_api.problems import Problem

ROOT: Final = "lakelog"
OF_PLANE: Final = "lakelog.admin"


class Levels(Protocol):
    """The least that the loggers of this process say."""

    def name_of(self, name: str) -> str: ...
    def change(self, name: str, level: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Whoever has loggers."""

    broker: Internal
    compactor: Internal
    own: Levels | None = None

    async def loggers(self) -> list[Logger]:
        """All of them, by name. Raises Problem 50303 where no broker says its own."""
        found = {row["name"]: row["level"] for row in await self.broker.rows("loggers")}
        try:
            rows = await self.compactor.rows("loggers")
        except Problem:
            rows = []
        found |= {row["name"]: row["level"] for row in rows if row["name"] != ROOT}
        if self.own is not None:
            found[OF_PLANE] = self.own.name_of(OF_PLANE)
        return [
            Logger(name=name, level=Level(level))
            for name, level in sorted(found.items())
        ]

    async def change(self, name: str, level: Level) -> bool:
        """Whether there is such a logger; it says this and above from now on."""
        is_here = self.own is not None and name in (ROOT, OF_PLANE)
        if self.own is not None and is_here:
            self.own.change(name, level)
        if name == OF_PLANE:
            return is_here
        at_broker = await self.broker.change_level(name, level)
        if at_broker and name != ROOT:
            return True
        try:
            return await self.compactor.change_level(name, level) or at_broker
        except Problem:
            return at_broker
