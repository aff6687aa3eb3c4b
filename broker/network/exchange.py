"""A request whose answer is not there yet.

Requests of a connection run at the same time, and Kafka's clients match answers to
requests by their order. So each request that is not answered at once takes its place
in a line, and an answer leaves when all before it have left.
"""

from typing import Any, Protocol

from broker.dispatch.dispatcher import Route
from broker.protocol.buffers import Buffer


class Owner(Protocol):
    """The connection that a request came on."""

    def finished(self, exchange: "Exchange", future: Any) -> None:
        """The handler of a request is done."""


class Exchange:
    """One place in the line; also what its handler's future calls when it is done."""

    __slots__ = ("correlation_id", "done", "owner", "parts", "route", "size", "weight")

    def __init__(
        self, owner: Owner, route: Route, correlation_id: int, weight: int
    ) -> None:
        self.owner = owner
        self.route = route
        self.correlation_id = correlation_id
        self.weight = weight
        """Bytes of the request, which are under way until it is answered."""
        self.parts: list[Buffer] = []
        self.size = 0
        self.done = False

    def __call__(self, future: Any) -> None:
        self.owner.finished(self, future)

    def settle(self, response: Any) -> None:
        """The answer is there; None: nothing is to be sent."""
        self.done = True
        if response is not None:
            self.parts, self.size = self.route.answer(self.correlation_id, response)
