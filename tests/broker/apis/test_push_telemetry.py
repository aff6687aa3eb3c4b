"""PushTelemetry: kept in the size that is allowed, whatever it claims to be."""

import pytest

from broker.dispatch.registry import Registry
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from broker.protocol.messages.push_telemetry import PushTelemetryRequest
from broker.records.compression import compress
from broker.runtime.process.telemetry import CODECS
from tests.support.coordinating import House, housed, story

ID = b"i" * 16
LIMIT = 1 << 20


async def push(house: House, metrics: bytes, codec: int = 0, **fields) -> int:
    house.registry = Registry.discover(switches=("telemetry",))
    asked = await house.ask(GetTelemetrySubscriptionsRequest(ID), 0)
    given = {"client_instance_id": ID, "subscription_id": asked.subscription_id}
    request = PushTelemetryRequest(
        **{**given, "compression_type": codec, "metrics": metrics, **fields}
    )
    code: int = (await house.ask(request, 0)).error_code
    await house.pass_time(300_000)
    return code


def kept(house: House) -> list[bytes]:
    return [one.metrics for one in house.broker.telemetry.instances()]


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_metrics_are_kept_in_the_place_of_those_before(tmp_path, codec):
    async def play():
        async with housed(tmp_path) as house:
            for metrics in (b"first", b"m" * 1_000):
                data = bytes(compress(codec, metrics))
                assert await push(house, data, codec) == 0
                assert kept(house) == [metrics]
            assert await push(house, b"", codec) == 0
            assert kept(house) == [b"m" * 1_000]

    story(play)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_does_not_burst(tmp_path, codec):
    async def play():
        async with housed(tmp_path) as house:
            bomb = bytes(compress(codec, bytes(16 * LIMIT)))
            assert len(bomb) <= LIMIT
            assert await push(house, bomb, codec) == ErrorCode.INVALID_RECORD
            exact = bytes(compress(codec, bytes(LIMIT)))
            assert await push(house, exact, codec) == 0
            assert await push(house, b"junkjunk", codec) == ErrorCode.INVALID_RECORD
            assert kept(house) == [bytes(LIMIT)]

    story(play)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"metrics": bytes(LIMIT + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"client_instance_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": bytes(15) + b"\1"}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": b"j" * 16}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -128}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_what_cannot_be_is_refused_and_not_kept(tmp_path, fields, code):
    async def play():
        async with housed(tmp_path) as house:
            assert await push(house, **{"metrics": b"m", **fields}) == code
            assert not any(kept(house))

    story(play)


def test_after_its_end_nothing_comes(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            assert await push(house, b"last", terminating=True) == 0
            assert await push(house, b"more") == ErrorCode.INVALID_REQUEST
            assert kept(house) == [b"last"]

    story(play)
