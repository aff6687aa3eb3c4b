"""GetTelemetrySubscriptions: only where it is enabled, and in its time."""

from pathlib import Path

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from broker.runtime.process.telemetry import CODECS
from tests.support.coordinating import House, housed, story
from tests.support.peer import Peer
from tests.support.process import BrokerPart

BOTH = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
NO_ID = bytes(16)


async def ask(house: House, instance_id: bytes = NO_ID):
    house.registry = Registry.discover(switches=("telemetry",))
    return await house.ask(GetTelemetrySubscriptionsRequest(instance_id), 0)


def test_it_is_hidden_unless_it_is_enabled(tmp_path: Path) -> None:
    for enabled in ("false", "true"):
        part = BrokerPart(tmp_path / "data", f"telemetry.enabled={enabled}")
        part.start()
        try:
            with Peer(part.bootstrap) as peer:
                found = peer.ask(ApiVersionsRequest("a", "1"), 4)
                listed = {one.api_key for one in found.api_keys}
                assert (listed >= BOTH) is (enabled == "true")
                assert (not listed & BOTH) is (enabled == "false")
                try:
                    answer = peer.ask(GetTelemetrySubscriptionsRequest(NO_ID), 0)
                except ConnectionError:
                    assert enabled == "false"
                else:
                    assert (enabled, answer.error_code) == ("true", 0)
        finally:
            part.end()


def test_an_instance_gets_an_id_and_nothing_to_push(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            first, second = await ask(house), await ask(house)
            assert NO_ID != first.client_instance_id != second.client_instance_id
            assert first.requested_metrics == []
            assert first.accepted_compression_types == list(CODECS)
            assert (first.push_interval_ms, first.delta_temporality) == (300_000, True)
            assert first.telemetry_max_bytes == 1 << 20
            again = await ask(house, first.client_instance_id)
            assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            await house.pass_time(300_000)
            again = await ask(house, first.client_instance_id)
            assert again.subscription_id == first.subscription_id

    story(play)
