"""Which subscriptions match a client."""

import pytest

from broker.dispatch.registry import Registry
from broker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from broker.runtime.configs.layers import Kind
from tests.support.coordinating import House, housed, story


async def ask(house: House, instance_id: bytes = bytes(16)):
    house.registry = Registry.discover(switches=("telemetry",))
    return await house.ask(GetTelemetrySubscriptionsRequest(instance_id), 0)


@pytest.mark.parametrize(
    ("match", "is_asked"),
    [
        ("", True),
        ("client_id=c", True),
        ("client_id=.*", True),
        ("client_id=C", False),
        ("client_id=b", False),
        ("client_id=c,client_source_address=10[.].*", True),
        ("client_id=c,client_source_address=11[.].*", False),
        ("client_source_port=.*", False),
        ("client_software_name=kafka", False),
        ("client_id=(a+)+$", False),
    ],
)
def test_a_client_is_asked_if_all_patterns_match(tmp_path, match, is_asked):
    async def play():
        async with housed(tmp_path) as house:
            configs = {"metrics": "org.apache", "match": match}
            subscription = Kind.CLIENT_METRICS, "s"
            await house.broker.configs.alter(subscription, lambda _: configs)
            found = (await ask(house)).requested_metrics
            assert found == (["org.apache"] if is_asked else [])

    story(play)


def test_a_change_of_what_is_configured_reaches_who_asked_before(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            before = await ask(house)
            for number in range(3):
                given = {"metrics": f"m{number}", "interval.ms": "1000"}
                subscription = Kind.CLIENT_METRICS, f"s{number}"
                await house.broker.configs.alter(subscription, lambda _, g=given: g)
            await house.pass_time(300_000)
            after = await ask(house, before.client_instance_id)
            assert after.requested_metrics == ["m0", "m1", "m2"]
            assert after.push_interval_ms == 1_000
            assert after.subscription_id != before.subscription_id

    story(play)
