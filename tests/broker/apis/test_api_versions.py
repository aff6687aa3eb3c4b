"""ApiVersions says what is served, and checks who asks."""

import pytest

from broker.apis.api_versions import api_versions
from broker.dispatch.context import Context
from broker.dispatch.registry import Listed, Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest


def context(version: int, *listed: Listed) -> Context:
    return Context(
        version=version,
        client_id=None,
        key=ApiKey.API_VERSIONS,
        peer_host="h",
        broker=object(),  # type: ignore[arg-type]
        listed=listed,
    )


def test_it_lists_what_the_registry_found() -> None:
    listed = (Listed(0, 0, 13), Listed(18, 0, 4))
    answer = api_versions(ApiVersionsRequest(), context(0, *listed))
    assert answer.error_code == ErrorCode.NONE
    assert answer.api_keys == [ApiVersion(0, 0, 13), ApiVersion(18, 0, 4)]


def test_a_connection_remembers_its_software() -> None:
    asked = context(3)
    api_versions(ApiVersionsRequest("apache-kafka-java", "4.1.0"), asked)
    assert asked.software.name == "apache-kafka-java"
    assert asked.software.version == "4.1.0"


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a b", "1"), ("a", "-1"), ("a\n", "1"), ("a", "")]
)
def test_software_that_is_no_name_is_refused(name: str, version: str) -> None:
    answer = api_versions(ApiVersionsRequest(name, version), context(3))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.api_keys == []


def test_before_version_three_nobody_says_a_name() -> None:
    assert api_versions(ApiVersionsRequest(), context(2)).error_code == ErrorCode.NONE


def test_produce_is_listed_from_zero_although_older_ones_are_refused() -> None:
    registry = Registry.discover()
    assert registry.listed()[0] == Listed(ApiKey.PRODUCE, 0, 13)
    assert registry.find(ApiKey.PRODUCE, 2) is None
