"""ListConfigResources: what has a configuration."""

import pytest

from broker.dispatch.turns import ITEMS_A_TURN
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from broker.runtime.configs.layers import Kind
from tests.support.coordinating import housed, story


async def listed(house, version, *kinds):
    answer = await house.ask(ListConfigResourcesRequest(list(kinds)), version)
    assert answer.error_code == 0
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_each_kind_is_listed(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            for kind, name in ((Kind.GROUP, "g"), (Kind.CLIENT_METRICS, "s")):
                await house.broker.configs.alter((kind, name), lambda _: {"a": "1"})
            everything = await listed(house, 1)
            assert set(everything) == {
                (2, "__consumer_offsets"), (2, "flights"), (2, "weather"), (4, "7"),
                (8, "7"), (16, "s"), (32, "g"),
            }  # fmt: skip
            assert await listed(house, 1, *[32] * 3 * ITEMS_A_TURN) == [(32, "g")]
            assert await listed(house, 0, 2) == [(16, "s")]

    story(play)


@pytest.mark.parametrize("kind", [0, 1, 64, 127, -1, -128])
def test_a_kind_that_is_none_is_refused(tmp_path, kind):
    async def play():
        async with housed(tmp_path) as house:
            request = ListConfigResourcesRequest([2, kind])
            answer = await house.ask(request, 1)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    story(play)
