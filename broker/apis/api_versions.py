"""ApiVersions (18): what this broker speaks.

The answer is read off the handlers themselves, so it can promise nothing that is not
served. It is the first request of nearly every connection; one that asks in a version
which we do not know is answered in version 0 with what we do know, so that the client
can step down (KIP-511; the dispatcher does that, as the body cannot be read).

Versions
    0    keys and their version ranges
    1-2  throttle time
    3    flexible; the client's software name and version; features (KIP-584): with
         ``transaction.version`` 2 clients leave to Produce 12 and TxnOffsetCommit 5
         what they else add themselves (KIP-890); ``metadata.version`` is for people
    4    features whose lowest level is 0 may be named as supported (KAFKA-17011)
"""

import re
from typing import Final

from broker.dispatch.context import Context
from broker.dispatch.registry import Listed, serves
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from broker.runtime.configs.features import SUPPORTED

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What a name and a version may look like: ``ApiVersionsRequest.isValid``."""

KEPT_MAX: Final = 64
"""Characters of each that are remembered, and shown: a client may send megabytes."""


@serves(ApiKey.API_VERSIONS, versions=(0, 4))
def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """List what is served; remember who asked."""
    name, version = request.client_software_name, request.client_software_version
    if context.version >= 3:
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        software = context.software
        software.name, software.version = name[:KEPT_MAX], version[:KEPT_MAX]
    response = ApiVersionsResponse(api_keys=_entries(context.listed))
    if context.version >= 3:
        _add_features(response, context)
    return response


def _add_features(response: ApiVersionsResponse, context: Context) -> None:
    features = context.broker.features
    response.finalized_features_epoch = features.epoch
    response.finalized_features = [
        FinalizedFeatureKey(name, level, level)
        for name, level in features.finalized.items()
    ]
    response.supported_features = [
        SupportedFeatureKey(name, *levels)
        for name, levels in SUPPORTED.items()
        if levels.min_level > 0 or context.version >= 4
    ]


def _entries(listed: tuple[Listed, ...]) -> list[ApiVersion]:
    return [ApiVersion(*entry) for entry in listed]
