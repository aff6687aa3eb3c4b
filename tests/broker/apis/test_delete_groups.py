"""DeleteGroups, over the wire."""

import asyncio

import pytest

from broker.apis.delete_groups import GROUPS_A_TURN, delete_groups
from broker.dispatch.context import Context
from broker.groups.offsets import Committed
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.support.coordinating import housed, story
from tests.support.members import stable


@pytest.mark.parametrize("version", range(3))
def test_empty_groups_go_others_stay(tmp_path, version):
    async def play():
        async with housed(tmp_path) as house:
            await stable(house)
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            asked = DeleteGroupsRequest(["g", "simple", "nobody", "simple"])
            answer = await house.ask(asked, version)
            assert [(r.group_id, r.error_code) for r in answer.results] == [
                ("g", ErrorCode.NON_EMPTY_GROUP),
                ("simple", ErrorCode.NONE),
                ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ]
            assert house.groups.exists("g")
            assert not house.groups.exists("simple")
        async with housed(tmp_path) as house:
            assert not house.groups.exists("simple")

    story(play)


def test_who_hangs_up_amid_many_groups_deletes_no_more_of_them(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            nobody = [f"nobody-{n}" for n in range(GROUPS_A_TURN)]
            context = Context(2, "c", 42, "h", house.broker)
            asked = DeleteGroupsRequest([*nobody, "simple"])
            underway = delete_groups(asked, context)
            underway.abandon()
            for _ in range(9):
                await asyncio.sleep(0)
            assert house.groups.exists("simple")

    story(play)


def test_a_catalog_that_fails_is_told_and_the_offsets_stay(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            await house.groups.commit("simple", {(1, 0): Committed(1)})
            house.catalog.close()
            answer = await house.ask(DeleteGroupsRequest(["simple"]), 2)
            (result,) = answer.results
            assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert house.groups.fetch("simple")

    story(play)
