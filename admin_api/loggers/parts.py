"""The loggers of all parts, each in its own process.

The broker and the compactor are asked on their internal endpoints; the plane's own are
here. The root's name stands for the loggers of all of them. A compactor that does not
run has none, and so has a plane that was given none; one that runs and does not answer
may have any, so nothing is said to be all of them, or not to be there, without it. So
it is with one that tells its status and listens nowhere: its secret may be unusable.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from admin_api.internal import Absent, Internal
from admin_api.loggers.schemas import Level, Logger
from admin_api.problems import Problem

ROOT: Final = "lakelog"
OF_PLANE: Final = "lakelog.admin"
NEEDS: Final = ("name", "level")
T = TypeVar("T")


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
    compactor_runs: Callable[[], bool] = lambda: False
    """As far as its status says; blocks for a moment."""

    async def loggers(self) -> list[Logger]:
        """All of them, by name. Raises Problem 50303 where a part does not say."""
        found, failures = await self._found()
        _check(failures)
        return [found[name] for name in sorted(found)]

    async def find(self, name: str) -> Logger | None:
        """One of them. Raises Problem 50303 where a part that may have it is silent."""
        found, failures = await self._found()
        if name not in found:
            _check(failures)
        return found.get(name)

    async def change(self, name: str, level: Level) -> bool:
        """Whether there is such a logger; it says this and above from now on.

        Raises Problem 50303 where a part that may have it is silent; of the root all
        the other parts are changed then.
        """
        is_here = self.own is not None and name in (ROOT, OF_PLANE)
        if self.own is not None and is_here:
            self.own.change(name, level)
        if name == OF_PLANE:
            return is_here
        said = await asyncio.gather(
            _tried(self.broker.change_level(name, level)),
            _tried(self.compactor.change_level(name, level)),
        )
        if name == ROOT or True not in said:
            _check(await self._failures(*said))
        return True in said

    async def _found(self) -> tuple[dict[str, Logger], list[Problem]]:
        said = await asyncio.gather(
            _tried(self.broker.rows("loggers", NEEDS)),
            _tried(self.compactor.rows("loggers", NEEDS)),
        )
        of_broker, of_compactor = ([] if isinstance(x, Problem) else x for x in said)
        others = [row for row in of_compactor if row["name"] != ROOT]
        rows = {row["name"]: row["level"] for row in (*of_broker, *others)}
        if self.own is not None:
            rows[OF_PLANE] = self.own.name_of(OF_PLANE)
        found = {
            name: Logger(name=name, level=Level(level)) for name, level in rows.items()
        }
        return found, await self._failures(*said)

    async def _failures(self, of_broker: object, of_compactor: object) -> list[Problem]:
        """Who did not say what was asked; a compactor that does not run has nothing."""
        is_away = isinstance(of_compactor, Absent)
        if is_away and not await asyncio.to_thread(self.compactor_runs):
            of_compactor = None
        return [one for one in (of_broker, of_compactor) if isinstance(one, Problem)]


async def _tried(asking: Awaitable[T]) -> T | Problem:
    try:
        return await asking
    except Problem as problem:
        return problem


def _check(failures: Sequence[Problem]) -> None:
    if failures:
        raise Problem(50303, " ".join(one.message for one in failures))
