"""Asking the compactor, through the catalog, and seeing what came of it.

It is the way that `lakelog compact` takes: the request is a row, which the compactor
looks for five times a second. Where it runs, and whether it does, does not matter to
the request.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from admin_api.compaction.schemas import Operation, State
from admin_api.lake import Lake
from admin_api.problems import Problem
from admin_api.resources import Metadata
from admin_api.status import StatusFiles
from broker.clock import Clock
from broker.status.schema import CompactorStatus, TableState, held_sentences

if TYPE_CHECKING:
    from broker.catalog.requests import FoundRequest

POLL_S: Final = 0.2
NOBODY: Final = (
    "no compactor is running, or it hangs: the request waits for one, for a day"
)


class Operations:
    """The operations of one data directory, with links below ``base``."""

    def __init__(
        self, lake: Lake, status: StatusFiles, clock: Clock, base: str
    ) -> None:
        self._lake, self._status = lake, status
        self._clock, self._base = clock, base

    def find(self, operation_id: int) -> Operation:
        """The operation as it stands; blocks. Raises Problem 404 for one unknown."""
        from broker.catalog import requests

        found = self._lake.read(lambda c: requests.find(c, operation_id))
        if found is None:
            raise Problem(404, f"There is no operation {operation_id} (any more).")
        return render(self._base, found, self._status.compactor())

    def compact(self, topic: str) -> Operation:
        """Ask for the table of a topic that is there; blocks. Raises Problem 40403."""
        from broker.catalog import requests

        self._lake.topic(topic)
        now_ms = self._clock.now_ms()
        return self.find(self._lake.change(lambda c: requests.ask(c, [topic], now_ms)))

    async def completed(self, operation: Operation, timeout_s: float) -> Operation:
        """The operation once it is done or stuck, or as it is after ``timeout_s``;
        at once where nobody is there to do it."""
        deadline_ms = self._clock.monotonic_ms() + int(timeout_s * 1000)
        while (
            operation.state == State.RUNNING
            and operation.reason != NOBODY
            and self._clock.monotonic_ms() < deadline_ms
        ):
            await asyncio.sleep(POLL_S)
            operation = await asyncio.to_thread(self.find, operation.operation_id)
        return operation


def render(
    base: str, found: "FoundRequest", compactor: CompactorStatus | None
) -> Operation:
    """A request, in the light of what the compactor says."""
    state, reason = _state(found, compactor)
    return Operation(
        metadata=Metadata(self=f"{base}/v1/operations/{found.id}"),
        operation_id=found.id,
        topic_names=None if found.topics is None else list(found.topics),
        state=state,
        reason=reason,
        asked_ms=found.asked_ms,
        done_ms=found.done_ms,
    )


def _state(
    found: "FoundRequest", compactor: CompactorStatus | None
) -> tuple[State, str | None]:
    if found.done_ms is not None:
        return State.DONE, None
    if compactor is None:
        return State.RUNNING, NOBODY
    stuck = [one for one in compactor.tables if _is_stuck(one, found.id, found.topics)]
    if stuck:
        return State.STUCK, "; ".join(f"{one.topic}: {one.why}" for one in stuck)
    held = [
        f"{topic}: {why}"
        for topic, why in held_sentences(compactor).items()
        if found.topics is None or topic in found.topics
    ]
    return State.RUNNING, "; ".join(held) or None


def _is_stuck(
    table: TableState, request_id: int, topics: Collection[str] | None
) -> bool:
    """Whether it was tried in vain after the request was seen; a compactor that does
    not say what it had seen is believed."""
    knew = table.request_id is None or table.request_id >= request_id
    return table.stuck and knew and (topics is None or table.topic in topics)
