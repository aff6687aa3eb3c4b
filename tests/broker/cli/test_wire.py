"""The command line's own connection, to brokers that are there and to others."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.cli.failures import BadUsage, UserError
from broker.cli.wire import TIMES_MAX, AnswerTooLong, Wire, failure_of
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import response_encoder
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.support.patience import STUCK_S
from tests.support.ports import nobody

LISTS = int(ApiKey.LIST_TRANSACTIONS)


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server of one client: for each of its requests the next of these, then the
    end."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(STUCK_S)

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(STUCK_S)
        with connection:
            for answer in answers:
                connection.recv(1 << 16)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def versions(*listed: tuple[int, int, int]) -> bytes:
    answer = ApiVersionsResponse(api_keys=[ApiVersion(*one) for one in listed])
    body = b"".join(response_encoder(int(ApiKey.API_VERSIONS), 0)(answer))
    return framed(bytes(4) + body)


def listed(version: int, code: int = 0) -> bytes:
    answer = ListTransactionsResponse(error_code=code)
    return framed(bytes(5) + b"".join(response_encoder(LISTS, version)(answer)))


def test_a_request_goes_out_in_the_highest_version_that_both_know():
    for last, version in [(1, 1), (99, 2)]:
        said = versions((LISTS, 0, last)), listed(version, 7)
        with answering(*said) as address, Wire.open(address) as wire:
            assert wire.ask(ListTransactionsRequest()).error_code == 7


def test_or_in_one_that_the_request_can_be_written_in():
    said = versions((LISTS, 0, 2)), listed(1, 7)
    with answering(*said) as address, Wire.open(address) as wire:
        assert wire.ask(ListTransactionsRequest(), at_most=1).error_code == 7


def test_an_answer_that_is_too_long_is_not_read():
    """Nothing of it comes behind its length here."""
    for longest, begun in [(99, struct.pack(">i", 100)), (1 << 20, b"\x02\0\0\0")]:
        said = versions((LISTS, 0, 2)), begun
        too_long = pytest.raises(AnswerTooLong)
        with answering(*said) as address, Wire.open(address) as wire, too_long:
            wire.ask(ListTransactionsRequest(), longest=longest)


def test_one_that_is_not_is_an_answer():
    said = versions((LISTS, 0, 2)), listed(2, 7)
    with answering(*said) as address, Wire.open(address) as wire:
        asked = wire.ask(ListTransactionsRequest(), longest=len(said[1]) - 4)
    assert asked.error_code == 7


@pytest.mark.parametrize("served", [(), ((LISTS, 3, 9),), ((18, 0, 4),)])
def test_what_a_broker_does_not_serve_is_not_asked(served):
    unserved = pytest.raises(UserError, match="does not serve LIST_TRANSACTIONS")
    said = versions(*served)
    with answering(said) as address, Wire.open(address) as wire, unserved:
        wire.ask(ListTransactionsRequest())


def test_who_is_to_come_again_comes_again():
    again = [listed(2, 51)] * 2
    said = versions((LISTS, 0, 2)), *again, listed(2)
    with answering(*said) as address, Wire.open(address) as wire:
        answer = wire.ask_until(
            ListTransactionsRequest(), lambda one: one.error_code != 51
        )
    assert answer.error_code == 0
    assert TIMES_MAX > 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", framed(b""), framed(b"SSH-2.0")],
)
def test_what_is_no_broker_is_told(answer):
    with answering(answer) as address, pytest.raises(UserError, match="is no broker"):
        Wire.open(address)


def test_where_nobody_is_is_told():
    with nobody() as address, pytest.raises(UserError, match="no broker answers"):
        Wire.open(address)
    with nobody() as address, answering(versions()) as there:
        Wire.open(f"{address},{there}").__exit__()
    with pytest.raises(BadUsage):
        Wire.open("localhost")


def test_a_failure_is_a_sentence():
    assert failure_of(51, "x") == "x: CONCURRENT_TRANSACTIONS"
    assert failure_of(9_999, "x") == "x: error 9999"
