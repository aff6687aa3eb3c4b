"""UpdateFeatures: finalized levels, raised and lowered.

Behavior: as ``FeatureControlManager.updateFeatures``: all of a request or nothing; the
change is durable, and ApiVersions says so with a higher epoch, before the answer. Which
features there are: ``broker/runtime/configs/features.py``.
Version notes: v0 can only raise (what its ``allow_downgrade`` says counts for nothing,
as in Kafka 4); v1 kinds of change, and only validating; v2 no results of features
(KIP-1022).
"""

from collections.abc import Iterator

from broker.dispatch.context import Context
from broker.dispatch.registry import serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from broker.runtime.configs.features import FeatureUpdate

UPDATES_MAX = 100


@serves(ApiKey.UPDATE_FEATURES, versions=(0, 2))
async def update_features(
    request: UpdateFeaturesRequest, context: Context
) -> UpdateFeaturesResponse:
    only_asked = request.validate_only and context.version >= 1
    try:
        if len(request.feature_updates) > UPDATES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"More than {UPDATES_MAX} updates of features.",
            )
        updates = list(_updates(request))
        await context.broker.features.update(updates, validate_only=only_asked)
    except KafkaError as error:
        return UpdateFeaturesResponse(
            error_code=error.code, error_message=error.message
        )
    response = UpdateFeaturesResponse(error_message=None)
    if context.version < 2:
        response.results = [
            UpdatableFeatureResult(one.name, error_message="NONE") for one in updates
        ]
    return response


def _updates(request: UpdateFeaturesRequest) -> Iterator[FeatureUpdate]:
    for one in request.feature_updates:
        yield FeatureUpdate(one.feature, one.max_version_level, one.upgrade_type)
