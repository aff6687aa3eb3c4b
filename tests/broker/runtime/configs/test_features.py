"""Finalized features: lowered, raised, and known after a restart."""

import asyncio

import pytest

from broker.catalog.catalog import Catalog
from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.configs.features import (
    METADATA_VERSION,
    SAFE_DOWNGRADE,
    TRANSACTION_VERSION,
    UPGRADE,
    Features,
    FeatureUpdate,
)

LOWER = FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)


@pytest.fixture
def catalog(tmp_path):
    with Catalog.open(tmp_path / "catalog.db") as opened:
        yield opened


def loaded(catalog):
    made = Features(catalog, 1)
    made.load()
    return made


def update(features, *updates, validate_only=False):
    async def story():
        await features.update(updates, validate_only=validate_only)

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_level_is_lowered_raised_and_counted(catalog):
    features, heard = loaded(catalog), []
    features.on_change = lambda: heard.append(features.level(TRANSACTION_VERSION))
    update(features, LOWER, validate_only=True)
    assert (features.epoch, features.level(TRANSACTION_VERSION)) == (0, 2)
    update(features, LOWER, LOWER)
    again = loaded(catalog)
    assert (again.epoch, again.level(TRANSACTION_VERSION)) == (1, 1)
    update(features, FeatureUpdate(TRANSACTION_VERSION, 0, SAFE_DOWNGRADE))
    assert features.finalized == {METADATA_VERSION: 30}
    update(features, FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE))
    update(features, FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE))  # as it is
    assert (features.epoch, heard) == (3, [1, 0, 2])


@pytest.mark.parametrize(
    "wrong",
    [
        FeatureUpdate("no.such", 1, UPGRADE),
        FeatureUpdate("x" * 32_767, 1, UPGRADE),
        FeatureUpdate(TRANSACTION_VERSION, 3, UPGRADE),
        FeatureUpdate(TRANSACTION_VERSION, -1, SAFE_DOWNGRADE),
        FeatureUpdate(TRANSACTION_VERSION, 1, UPGRADE),
        FeatureUpdate(TRANSACTION_VERSION, 1, 9),
        FeatureUpdate(METADATA_VERSION, 29, SAFE_DOWNGRADE),
    ],
)
def test_one_that_is_refused_spoils_all(catalog, wrong):
    features = loaded(catalog)
    with pytest.raises(KafkaError) as refused:
        update(features, LOWER, wrong)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert len(refused.value.message) < 700
    assert (features.epoch, features.level(TRANSACTION_VERSION)) == (0, 2)
