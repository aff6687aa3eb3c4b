"""ConsumerGroupHeartbeat: the answer after which clients do not ask again."""

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.support.coordinating import housed, story


@pytest.mark.parametrize("version", [0, 1])
def test_who_asks_for_the_new_protocol_is_told_to_take_the_classic_one(
    tmp_path, version
):
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=30_000
    )

    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(request, version)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert "group.protocol=classic" in answer.error_message
            assert (answer.member_id, answer.assignment) == (None, None)
            assert not list(house.groups.groups())

    story(play)
