"""ListGroups, over the wire."""

import pytest

from broker.groups.offsets import Committed
from broker.protocol.messages.list_groups import ListGroupsRequest
from tests.support.coordinating import housed, story
from tests.support.members import stable


@pytest.mark.parametrize("version", range(6))
def test_managed_and_simple_groups_are_listed(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            answer = await house.ask(ListGroupsRequest(), version)
            found = {g.group_id: g for g in answer.groups}
            types = {name: g.protocol_type for name, g in found.items()}
            assert types == {"g": "consumer", "simple": ""}
            if version >= 4:
                assert found["g"].group_state == "Stable"
                assert found["simple"].group_state == "Empty"
            if version >= 5:
                assert found["g"].group_type == "classic"

    story(play)


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Stable"], [], ["g"]),
        (["empty", "DEAD"], [], ["simple"]),
        (["PreparingRebalance"], [], []),
        ([], ["Classic"], ["g", "simple"]),
        ([], ["consumer"], []),
        (["Stable"], ["classic", "share"], ["g"]),
    ],
)
def test_filters_by_state_and_type_whatever_their_case(tmp_path, states, types, found):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            answer = await house.ask(ListGroupsRequest(states, types), 5)
            assert [g.group_id for g in answer.groups] == found

    story(play)
