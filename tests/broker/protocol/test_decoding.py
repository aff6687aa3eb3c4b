"""Hostile bytes: only a `ProtocolError` comes out, and memory stays bounded."""

import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol import wire
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import (
    request_decoder,
    request_decoder_in_turns,
    request_encoder,
)
from broker.protocol.errors import ProtocolError
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchRequest, ReplicaState
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.protocol.wire import ELEMENTS_A_TURN, uvarint
from tests.broker.protocol.values import EVERY, few, messages, name_of

REQUESTS = [case for case in EVERY if case[2] == "request"]


def encoded(message, version: int) -> bytes:
    return b"".join(request_encoder(message.API_KEY, version)(message))


def decode(key: int, version: int, data: bytes):
    return request_decoder(key, version)(memoryview(data), 0)


def produce(version: int) -> bytes:
    partition = PartitionProduceData(0, b"batch")
    topic = TopicProduceData("t", partition_data=[partition])
    return encoded(ProduceRequest(None, -1, 1000, [topic]), version)


@pytest.mark.parametrize("case", REQUESTS, ids=name_of)
def test_a_message_that_is_cut_or_goes_on_is_refused(case):
    key, version, side = case

    @few
    @given(messages(key, version, side), st.data())
    def refused(message, data):
        whole = encoded(message, version)
        if whole:
            cut = data.draw(st.integers(0, len(whole) - 1))
            with pytest.raises(ProtocolError):
                decode(key, version, whole[:cut])
        # librdkafka's Metadata v13 for all topics has three bytes too many
        assert decode(key, version, whole + b"\x01\x00\x00") == message

    refused()


@pytest.mark.parametrize("case", REQUESTS, ids=name_of)
def test_damaged_bytes_are_read_or_refused_but_nothing_else_happens(case):
    key, version, side = case

    @few
    @given(messages(key, version, side), st.data())
    def survives(message, data):
        whole = bytearray(encoded(message, version) or b"\x00")
        for _ in range(3):
            at = data.draw(st.integers(0, len(whole) - 1))
            whole[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
        with suppress(ProtocolError):
            decode(key, version, whole)

    survives()


@pytest.mark.parametrize("case", REQUESTS, ids=name_of)
def test_noise_is_read_or_refused_but_nothing_else_happens(case):
    key, version, _ = case

    @few
    @given(st.binary(max_size=60))
    def survives(noise):
        with suppress(ProtocolError):
            decode(key, version, noise)

    survives()


@pytest.mark.parametrize("count", [-2, -(1 << 31), 2, 1 << 20, (1 << 31) - 1])
def test_a_count_beyond_the_frame_is_refused(count):
    data = bytearray(produce(7))
    assert data[8:12] == struct.pack(">i", 1)
    data[8:12] = struct.pack(">i", count)
    with pytest.raises(ProtocolError):
        decode(ApiKey.PRODUCE, 7, data)


@pytest.mark.parametrize("length", [-1, -2, -32768, 3000, 32767])
def test_a_length_beyond_the_frame_is_refused(length):
    data = bytearray(produce(7))
    assert data[12:15] == b"\x00\x01t"
    data[12:14] = struct.pack(">h", length)
    with pytest.raises(ProtocolError):
        decode(ApiKey.PRODUCE, 7, data)


@pytest.mark.parametrize("length", [-2, 6, 1 << 30, -(1 << 31)])
def test_records_beyond_the_frame_are_refused(length):
    data = produce(7)
    data = data[: -len(b"batch") - 4] + struct.pack(">i", length) + b"batch"
    with pytest.raises(ProtocolError):
        decode(ApiKey.PRODUCE, 7, data)


def test_null_is_refused_where_it_is_no_value():
    # Metadata v0 says "all topics" by an empty array; null came with version 1.
    assert decode(ApiKey.METADATA, 1, struct.pack(">i", -1)).topics is None
    with pytest.raises(ProtocolError):
        decode(ApiKey.METADATA, 0, struct.pack(">i", -1))
    data = bytearray(produce(9))
    assert data[7:10] == b"\x02\x02t"
    data[7:10] = b"\x02\x00t"
    with pytest.raises(ProtocolError):
        decode(ApiKey.PRODUCE, 9, data)


@pytest.mark.parametrize(
    "varint", [b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f", b"\xff\xff"]
)
def test_a_varint_that_is_too_long_or_has_no_end_is_refused(varint):
    with pytest.raises(ProtocolError):
        decode(ApiKey.METADATA, 9, varint)


def with_tags(tags: bytes) -> bytes:
    """An empty fetch request of version 15 with this section of tagged fields."""
    data = encoded(FetchRequest(), 15)
    assert data[-1] == 0
    return data[:-1] + tags


def test_unknown_tags_are_skipped_and_known_ones_are_read():
    state = struct.pack(">iq", 7, 9) + b"\x00"
    tags = b"\x03" + b"\x00\x02c" + b"\x01\x0d" + state + b"\x7f\x03new"
    with pytest.raises(ProtocolError):
        decode(ApiKey.FETCH, 15, with_tags(tags))  # the value of tag 0 is cut
    tags = b"\x03" + b"\x00\x02\x02c" + b"\x01\x0d" + state + b"\x7f\x03new"
    read = decode(ApiKey.FETCH, 15, with_tags(tags))
    assert (read.cluster_id, read.replica_state) == ("c", ReplicaState(7, 9))


@pytest.mark.parametrize(
    "tags",
    [
        b"\x02\x00\x02\x02c\x00\x02\x02d",  # a tag twice
        b"\x02\x50\x01a\x50\x01a",  # an unknown tag twice
        b"\x02\x51\x01a\x50\x01a",  # tags that fall
        b"\x01\x50\x05abc",  # longer than the frame
        b"\x01\x00\x04\x02cXX",  # longer than its value
        b"\xff\xff\xff\xff\x07\x50\x01a",  # a huge count
        b"\x01\x01\x05\x00\x00\x00\x00\x00",  # a structure that is cut
        b"\x01",  # nothing where one was told
    ],
)
def test_bad_tags_are_refused(tags):
    with pytest.raises(ProtocolError):
        decode(ApiKey.FETCH, 15, with_tags(tags))


def many_tags(count: int) -> bytes:
    return uvarint(count) + b"".join(
        uvarint(tag) + b"\0" for tag in range(50, 50 + count)
    )


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.FETCH, 15), (ApiKey.METADATA, 12)]
)
def test_a_structure_has_a_thousand_tags_at_most(key, version):
    """Each takes time; a frame has room for twenty million."""
    api = {ApiKey.FETCH: FetchRequest(), ApiKey.METADATA: MetadataRequest([])}[key]
    whole = encoded(api, version)
    assert whole[-1:] == b"\0"
    assert decode(key, version, whole[:-1] + many_tags(wire.TAGS_MAX)) == api
    with pytest.raises(ProtocolError, match="1001 tagged fields"):
        decode(key, version, whole[:-1] + many_tags(wire.TAGS_MAX + 1))


def test_tags_count_as_work_of_a_decoder_that_gives_way():
    """As many turns, or more, as it takes to pass over some thousand of them each."""
    count, each = 50, 900
    topic = bytes(16) + b"\2t" + many_tags(each)
    data = uvarint(count + 1) + topic * count + b"\1\0\0"
    steps = request_decoder_in_turns(ApiKey.METADATA, 12)(memoryview(data), 0)
    turns = sum(1 for _ in steps)
    assert turns >= count * each // (ELEMENTS_A_TURN + wire.TAGS_MAX)


def test_a_string_has_no_more_bytes_than_kafka_takes():
    longest = "a" * wire.STRING_BYTES_MAX
    read = decode(18, 3, encoded(ApiVersionsRequest(longest, "1"), 3))
    assert read.client_software_name == longest
    with pytest.raises(ProtocolError, match="has length 32768"):
        decode(18, 3, encoded(ApiVersionsRequest(longest + "a", "1"), 3))


def test_many_small_elements_do_not_become_much_memory():
    # Three bytes an element, a hundred in memory: their number is bounded by itself.
    count = 4_000_000
    data = struct.pack(">i", count) + bytes(count * 2)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(ApiKey.METADATA, 1, data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_nested_arrays_share_one_bound():
    topic = struct.pack(">hi", 0, 400_000) + bytes(4 * 400_000)
    data = struct.pack(">h", 0) + struct.pack(">i", 2) + topic + topic
    with pytest.raises(ProtocolError, match="partition_indexes counts 400000"):
        decode(ApiKey.OFFSET_FETCH, 1, data)


def test_text_that_is_not_utf_8_is_replaced_as_kafka_does():
    data = encoded(MetadataRequest([MetadataRequestTopic(name="ab")]), 1)
    read = decode(ApiKey.METADATA, 1, data.replace(b"ab", b"a\xff"))
    assert read.topics == [MetadataRequestTopic(name="a\ufffd")]


def test_records_are_a_view_of_the_frame():
    frame = memoryview(bytearray(produce(9)))
    read = request_decoder(ApiKey.PRODUCE, 9)(frame, 0)
    records = read.topic_data[0].partition_data[0].records
    assert records.obj is frame.obj
    assert bytes(records) == b"batch"


def test_null_records_and_empty_records_are_not_the_same():
    for records in (None, b""):
        partition = PartitionProduceData(0, records)
        message = ProduceRequest(topic_data=[TopicProduceData("t", b"", [partition])])
        for version in (3, 9):
            read = decode(ApiKey.PRODUCE, version, encoded(message, version))
            assert read.topic_data[0].partition_data[0].records == records
