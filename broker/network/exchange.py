"""A request whose answer is not there yet.

Pipelined requests of a connection run at the same time, and Kafka's clients match
answers to requests by their order. So each request that is not answered at once takes
its place in a queue, and an answer leaves when all before it have left.
"""

from types import CoroutineType
from typing import Any, Protocol

from broker.dispatch.dispatcher import Route
from broker.dispatch.turns import Steps
from broker.protocol.buffers import Buffer
from broker.runtime.process.long_work import LongWork

OPEN_BYTES = 1 << 10
"""What an open request takes beside its frame: a small one is mostly that."""


class Owner(Protocol):
    """The connection that a request came on."""

    def finished(self, exchange: "Exchange", future: Any) -> None:
        """The handler of a request is done."""

    def written(self, exchange: "Exchange", error: Exception | None) -> None:
        """A large answer is whole, or could not be written."""


class Exchange:
    """One place in the queue; also what its handler's future calls when it is done."""

    __slots__ = (
        "_is_abandoned", "correlation_id", "done", "owner", "parts", "reservation",
        "result", "route", "size", "started_ns", "weight",
    )  # fmt: skip

    def __init__(
        self,
        owner: Owner,
        route: Route,
        correlation_id: int,
        weight: int,
        result: Any = None,
    ) -> None:
        self.owner = owner
        self.route = route
        self.correlation_id = correlation_id
        self.weight = weight
        """Bytes that the request retains until it is answered."""
        self.result = result
        """What the handler gave, while the request is open."""
        self.reservation: Any = None
        """Memory that the answer takes until it is sent; None: none is counted."""
        self.parts: list[Buffer] = []
        self.size = self.started_ns = 0
        self.done = False
        self._is_abandoned = False

    def __call__(self, future: Any) -> None:
        self.owner.finished(self, future)

    @property
    def is_in_place(self) -> bool:
        """Whether requests of its kind may start behind it: what it does has its place
        in the order."""
        return self.route.pipelined and type(self.result) is not CoroutineType

    def abandon(self) -> None:
        """Write no more of the answer: its connection is lost."""
        self._is_abandoned = True

    def complete(self, response: Any) -> None:
        """The answer is there; None: nothing is to be sent.

        One that is so large that it is written in turns is not ``done`` yet when this
        returns: its owner hears of it.
        """
        if type(response) is bytes:  # a whole answer already
            self.parts, self.size, self.done = [response], len(response), True
        elif response is None:
            self.done = True
        else:
            steps = self.route.answer_in_turns(self.correlation_id, response)
            if not self._write(steps):
                work = LongWork(is_answer=True)
                work.later(lambda: self._write_on(steps, work))

    def _write(self, steps: Steps[tuple[list[Buffer], int]]) -> bool:
        """Write one piece of the answer; whether that was the last."""
        try:
            next(steps)
        except StopIteration as end:
            self.parts, self.size = end.value
            self.done = True
        return self.done

    def _write_on(self, steps: Steps[tuple[list[Buffer], int]], work: LongWork) -> None:
        if self._is_abandoned:
            return
        try:
            whole = self._write(steps)
        except Exception as error:  # noqa: BLE001 - told by the owner
            self.owner.written(self, error)
            return
        if whole:
            self.owner.written(self, None)
        else:
            work.later(lambda: self._write_on(steps, work))
