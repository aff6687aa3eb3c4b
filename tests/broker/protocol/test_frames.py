"""Headers are read and written as Kafka's, with its two irregularities."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_reader

from broker.protocol.api_keys import VERSIONS, ApiKey
from broker.protocol.errors import ProtocolError
from broker.protocol.frames import (
    RequestHeader,
    decode_header,
    decode_response_head,
    encode_request_head,
    encode_response_head,
)
from broker.protocol.wire import TAGS_MAX, tagged
from tests.broker.protocol.values import few

CLIENT_IDS = st.none() | st.text(max_size=200)


@few
@given(st.sampled_from([*VERSIONS]), st.integers(0, 20), st.integers(0), CLIENT_IDS)
def test_a_request_header_survives(key, version, correlation_id, client_id):
    correlation_id %= 1 << 31
    head = encode_request_head(key, version, correlation_id, client_id)
    expected = RequestHeader(key, version, correlation_id, client_id, len(head))
    assert decode_header(memoryview(head + b"body")) == expected


@pytest.mark.parametrize(("version", "theirs"), [(8, KioHeader1), (9, KioHeader2)])
def test_kio_reads_the_same_header(version, theirs):
    head = encode_request_head(ApiKey.METADATA, version, 7, "me")
    read, size = entity_reader(theirs)(head, 0)
    assert size == len(head)
    assert (read.correlation_id, read.client_id) == (7, "me")


@pytest.mark.parametrize(
    ("request_", "version"),
    [(MetadataRequest, 8), (MetadataRequest, 9), (ApiVersionsRequest, 3)],
)
def test_a_header_of_kafka_python_is_read(request_, version):
    message = request_(version=version)
    message.with_header(correlation_id=5, client_id="client")
    data = memoryview(bytes(message.encode(header=True)))
    header = decode_header(data)
    assert header[:4] == (message.API_KEY, version, 5, "client")
    assert data[header.body_position :] == bytes(message.encode())


@pytest.mark.parametrize("key", VERSIONS)
def test_a_response_head_is_tagged_where_flexible_but_never_for_api_versions(key):
    for version in VERSIONS[key]:
        head = encode_response_head(key, version, 77)
        tagged = ApiKey(key).flexible(version) and key != ApiKey.API_VERSIONS
        assert head == struct.pack(">i", 77) + (b"\x00" if tagged else b"")
        assert decode_response_head(memoryview(head), key, version) == (77, len(head))


def test_a_version_that_nobody_defined_still_has_a_header():
    head = encode_request_head(ApiKey.API_VERSIONS, 99, 3, "new")
    assert decode_header(memoryview(head)).version == 99


def test_a_client_id_that_is_no_text_is_kept_readable():
    head = encode_request_head(ApiKey.METADATA, 1, 3, "ab").replace(b"ab", b"a\xff")
    assert decode_header(memoryview(head)).client_id == "a\ufffd"


MANY_TAGS = tagged([(tag, b"") for tag in range(TAGS_MAX + 1)])


def test_tags_of_newer_headers_are_skipped():
    head = encode_request_head(ApiKey.METADATA, 9, 3, "c")[:-1] + b"\x01\x05\x02xx"
    assert decode_header(memoryview(head)).body_position == len(head)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x01\x00",
        struct.pack(">hhih", 3, 1, 0, -2),
        struct.pack(">hhih", 3, 1, 0, 5) + b"abcd",
        struct.pack(">hhih", 3, 9, 0, -1),  # no tags
        struct.pack(">hhih", 3, 9, 0, -1) + b"\x01\x05\x09x",  # a tag beyond the frame
        struct.pack(">hhih", 3, 9, 0, -1) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 9, 0, -1) + MANY_TAGS,
        struct.pack(">hhih", 4, 0, 0, -1),  # LeaderAndIsr
        struct.pack(">hhih", -1, 0, 0, -1),
        struct.pack(">hhih", 9999, 0, 0, -1),
    ],
)
def test_what_is_no_header_is_refused(frame):
    with pytest.raises(ProtocolError):
        decode_header(memoryview(frame))


def test_a_response_head_that_is_cut_is_refused():
    with pytest.raises(ProtocolError):
        decode_response_head(memoryview(b"\x00\x00\x00\x01"), 3, 9)


def test_list_groups_has_no_body_in_its_first_version():
    message = ListGroupsRequest(version=0)
    message.with_header(correlation_id=1, client_id=None)
    data = memoryview(bytes(message.encode(header=True)))
    assert decode_header(data).body_position == len(data)
