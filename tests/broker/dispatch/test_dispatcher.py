"""From a frame to an answer, without a connection."""

from types import SimpleNamespace

import pytest

from broker.apis.api_versions import api_versions
from broker.dispatch.context import Context
from broker.dispatch.dispatcher import KEPT_BYTES_MAX, Dispatcher
from broker.dispatch.registry import Registry, serves
from broker.dispatch.turns import at_once
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import response_decoder
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.runtime.configs.features import Features
from tests.support.wire import frame_of

seen: list[Context] = []


@serves(ApiKey.HEARTBEAT, versions=(1, 4))
def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    seen.append(context)
    return HeartbeatResponse(throttle_time_ms=len(request.group_id))


FEATURED = SimpleNamespace(features=Features(None, 1))  # type: ignore[arg-type]
"""Of a broker, what ApiVersions looks at."""


def dispatcher() -> Dispatcher:
    served = [handler.__dict__["served"] for handler in (api_versions, heartbeat)]
    return Dispatcher(Registry(served), broker=FEATURED, listener="PLAINTEXT")


def frame(request: object, version: int, **more: object) -> memoryview:
    return memoryview(frame_of(request, version, **more))[4:]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [1, 4])
def test_a_request_finds_its_handler_and_its_answer_the_wire(version: int) -> None:
    session = dispatcher().session("10.0.0.1")
    started = session.start(frame(HeartbeatRequest("four"), version, correlation_id=9))
    route, correlation_id, response = started
    parts, size = route.answer(correlation_id, response)
    sent = memoryview(b"".join(map(bytes, parts)))
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4 == size - 4
    head = decode_response_head(sent[4:], ApiKey.HEARTBEAT, version)
    assert head[0] == 9
    answer = response_decoder(ApiKey.HEARTBEAT, version)(sent[4:], head[1])
    assert answer.throttle_time_ms == 4


@pytest.mark.parametrize("version", [1, 4])
def test_a_brief_answer_is_the_same_in_turns_of_which_it_takes_one(
    version: int,
) -> None:
    session = dispatcher().session("h")
    route, number, response = session.start(frame(HeartbeatRequest("four"), version))
    assert route.is_brief
    in_turns = at_once(route.answer_in_turns(number, response))
    assert in_turns == route.answer(number, response)


def test_a_handler_is_told_who_asks() -> None:
    session = dispatcher().session("10.0.0.1")
    session.start(frame(ApiVersionsRequest("librdkafka", "2.12.0"), 3))
    for client_id in ("a", "a", None):
        session.start(frame(HeartbeatRequest("g"), 4, client_id=client_id))
    first, second, third = seen[-3:]
    assert first is second
    assert (first.client_id, third.client_id) == ("a", None)
    assert (first.key, first.version) == (ApiKey.HEARTBEAT, 4)
    assert (first.broker, first.listener) == (FEATURED, "PLAINTEXT")
    assert first.peer_host == "10.0.0.1"
    assert (first.software.name, first.software.version) == ("librdkafka", "2.12.0")


@pytest.mark.parametrize("version", [0, 5, -1, 32767])
def test_a_version_that_is_not_served_is_a_protocol_error(version: int) -> None:
    raw = bytearray(frame(HeartbeatRequest("g"), 1))
    raw[2:4] = version.to_bytes(2, "big", signed=True)
    with pytest.raises(ProtocolError):
        dispatcher().session("h").start(memoryview(raw))


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_api_versions_is_told_how_to_step_down(version: int) -> None:
    raw = bytearray(frame(ApiVersionsRequest("x", "1"), 3)[:12])  # nobody reads on
    raw[2:4] = version.to_bytes(2, "big", signed=True)
    route, _, response = dispatcher().session("h").start(memoryview(raw))
    assert route.version == 0
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.api_keys == [ApiVersion(ApiKey.API_VERSIONS, 0, 4)]


def test_a_large_part_is_not_copied_to_put_a_head_before_it() -> None:
    route, _, _ = dispatcher().session("h").start(frame(HeartbeatRequest("g"), 1))
    large = bytes(1 << 20)
    route.encode = lambda _: [large]
    parts, size = route.answer(1, None)
    assert parts[1] is large
    assert size == 4 + 4 + len(large)


def test_of_a_long_header_nothing_is_kept() -> None:
    session = dispatcher().session("h")
    session.start(frame(HeartbeatRequest("g"), 4, client_id="short"))
    kept = dict(session._known)
    long = "x" * (KEPT_BYTES_MAX + 1)
    for version in range(1, 5):
        session.start(frame(HeartbeatRequest("g"), version, client_id=long))
        assert seen[-1].client_id == long
    assert session._known == kept
