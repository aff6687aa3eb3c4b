"""Without an authorizer all is refused, in Kafka's words; what was asked is read."""

import struct
from pathlib import Path

import pytest

from broker.apis._acls import refused
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import request_decoder, response_encoder
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_acls import AclCreationResult
from broker.protocol.messages.describe_acls import (
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.support.rig import rig
from tests.support.serving import on_loop, serving
from tests.support.wire import Wire

LITERAL, PREFIXED = 3, 4
LISTED = b"\0\0\0\1"
ACL_APIS = {
    ApiKey.CREATE_ACLS: LISTED,
    ApiKey.DESCRIBE_ACLS: b"",
    ApiKey.DELETE_ACLS: LISTED,
}
"""What stands before the first rule or filter, which look the same."""


def body(key: ApiKey, version: int) -> bytes:
    """As a client writes it: topics "t", and from version 1 on those that begin so."""
    pattern = bytes([PREFIXED]) if version else b""
    rule = b"\2" + b"\0\1t" + pattern + b"\0\6User:a" + b"\0\1*" + b"\3\3"
    return ACL_APIS[key] + rule


def test_it_is_refused_in_these_words_or_others() -> None:
    result = refused(AclCreationResult())
    assert (result.error_code, result.error_message) == (
        54,
        "No Authorizer is configured.",
    )
    assert refused(AclCreationResult(), "others").error_message == "others"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("key", ACL_APIS)
def test_version_0_knows_whole_names_only_and_version_1_beginnings(
    key: ApiKey, version: int
) -> None:
    read = request_decoder(int(key), version)(memoryview(body(key, version)), 0)
    [rule] = getattr(read, "creations", None) or getattr(read, "filters", [read])
    found = [getattr(rule, name) for name in rule.__slots__ if "pattern" in name]
    assert found == [PREFIXED if version else LITERAL]
    assert (rule.operation, rule.permission_type) == (3, 3)


def test_a_rule_that_is_described_has_its_pattern_from_version_1_on() -> None:
    resource = DescribeAclsResource(2, "t", PREFIXED)
    described = DescribeAclsResponse(error_message=None, resources=[resource])
    head = struct.pack(">ihhi", 0, 0, -1, 1) + b"\2\0\1t"
    for version, pattern in ((0, b""), (1, bytes([PREFIXED]))):
        encode = response_encoder(int(ApiKey.DESCRIBE_ACLS), version)
        assert b"".join(encode(described)) == head + pattern + bytes(4)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("key", ACL_APIS)
def test_a_body_of_another_version_closes_the_connection(
    tmp_path: Path, key: ApiKey, version: int
) -> None:
    def frame(of: int) -> bytes:
        sent = struct.pack(">hhih", key, version, 1, -1) + body(key, of)
        return struct.pack(">i", len(sent)) + sent

    async def story() -> None:
        async with rig(tmp_path) as broker, serving(broker=broker) as server:
            right, wrong = [await Wire.open(server.address) for _ in range(2)]
            right.send(frame(version))
            _, answer = await right.response(int(key), version)
            results = getattr(answer, "results", None)
            results = results or getattr(answer, "filter_results", [answer])
            codes = [one.error_code for one in results]
            assert codes == [ErrorCode.SECURITY_DISABLED]
            wrong.send(frame(1 - version))
            assert await wrong.closed()

    on_loop(story)
