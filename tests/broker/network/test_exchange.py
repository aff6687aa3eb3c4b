"""A place in the line: done with an answer, or with nothing to send."""

from broker.apis.api_versions import api_versions
from broker.dispatch.dispatcher import Route
from broker.network.exchange import Exchange
from broker.protocol.messages.api_versions import ApiVersionsResponse

ROUTE = Route(api_versions.__dict__["served"], 0)


class Owner:
    def __init__(self) -> None:
        self.told: list[tuple[Exchange, object]] = []

    def finished(self, exchange: Exchange, future: object) -> None:
        self.told.append((exchange, future))


def test_it_tells_its_connection_when_the_handler_is_done() -> None:
    owner, future = Owner(), object()
    exchange = Exchange(owner, ROUTE, 7, 100)
    exchange(future)
    assert owner.told == [(exchange, future)]


def test_an_answer_is_encoded_when_it_is_there() -> None:
    exchange = Exchange(Owner(), ROUTE, 7, 100)
    assert not exchange.done
    exchange.settle(ApiVersionsResponse())
    assert exchange.done
    sent = b"".join(map(bytes, exchange.parts))
    assert sent == b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0"
    assert exchange.size == len(sent)


def test_nothing_to_send_is_done_too() -> None:
    exchange = Exchange(Owner(), ROUTE, 7, 100)
    exchange.settle(None)
    assert exchange.done
    assert exchange.parts == []
    assert exchange.size == 0
