"""UpdateFeatures: what ApiVersions says follows, and what the coordinator goes by."""

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tests.support.coordinating import House, housed, story

NAME = "transaction.version"


def to(level: int, kind: int, count: int = 1) -> UpdateFeaturesRequest:
    updates = [FeatureUpdateKey(NAME, level, kind != 1, kind)] * count
    return UpdateFeaturesRequest(60_000, updates)


async def told(house: House) -> tuple[int, int | None]:
    answer = await house.ask(ApiVersionsRequest("a", "1"), 4)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return answer.finalized_features_epoch, levels.get(NAME)


def test_a_lower_level_is_told_and_holds_after_a_restart(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            assert await told(house) == (0, 2)
            answer = await house.ask(to(1, 2), 2)
            assert (answer.error_code, answer.results) == (0, [])
            assert await told(house) == (1, 1)
            assert house.broker.transactions.limits.version == 1
        async with housed(tmp_path) as house:
            assert await told(house) == (1, 1)
            assert house.broker.transactions.limits.version == 1
            answer = await house.ask(to(2, 1), 0)
            assert [one.feature for one in answer.results] == [NAME]
            assert await told(house) == (2, 2)

    story(play)


def test_version_0_cannot_lower_and_only_asking_changes_nothing(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(to(1, 2), 0)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
            request = to(1, 2)
            request.validate_only = True
            assert (await house.ask(request, 1)).error_code == 0
            assert await told(house) == (0, 2)

    story(play)


def test_no_more_updates_are_taken_than_anybody_needs(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(to(1, 2, 100_000), 2)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert await told(house) == (0, 2)

    story(play)


def test_a_feature_at_level_0_is_not_finalized(tmp_path):
    async def play():
        async with housed(tmp_path) as house:
            answer = await house.ask(to(0, 2), 2)
            assert (answer.error_code, answer.results) == (0, [])
            assert await told(house) == (1, None)
            assert (await house.ask(to(2, 1), 2)).error_code == 0
            assert await told(house) == (2, 2)

    story(play)
