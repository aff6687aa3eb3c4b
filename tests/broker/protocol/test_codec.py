"""Every message of every version survives its own codec; what is unknown is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol.api_keys import VERSIONS, ApiKey
from broker.protocol.codec import (
    has_brief_response,
    known_versions,
    request_decoder,
    request_decoder_in_turns,
    request_encoder,
    response_decoder,
    response_encoder,
    response_encoder_in_turns,
)
from broker.protocol.errors import ProtocolError
from broker.protocol.messages.fetch import FetchRequest
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.wire import ELEMENTS_A_TURN
from tests.broker.protocol.values import EVERY, few, messages, name_of

CODECS = {
    "request": (request_encoder, request_decoder),
    "response": (response_encoder, response_decoder),
}


@pytest.mark.parametrize("case", EVERY, ids=name_of)
def test_what_is_written_is_read_again(case):
    key, version, side = case
    encoder, decoder = CODECS[side]

    @few
    @given(messages(key, version, side), st.binary(max_size=3))
    def survives(message, before):
        data = before + b"".join(encoder(key, version)(message))
        assert decoder(key, version)(memoryview(data), len(before)) == message

    survives()


def turns_of(steps):
    """How often it gave way, and what it returned."""
    turns = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return turns, end.value
        turns += 1


@pytest.mark.parametrize("case", EVERY, ids=name_of)
def test_in_turns_the_same_is_read_and_written(case):
    key, version, side = case
    encoder, _ = CODECS[side]

    @few
    @given(messages(key, version, side))
    def agrees(message):
        data = encoder(key, version)(message)
        if side == "request":
            frame = memoryview(b"".join(data))
            steps = request_decoder_in_turns(key, version)(frame, 0)
            assert turns_of(steps)[1] == message
        else:
            steps = response_encoder_in_turns(key, version)(message)
            assert b"".join(turns_of(steps)[1]) == b"".join(data)

    agrees()


def test_a_large_message_gives_way_after_so_many_elements_wherever_they_stand():
    of_one = [MetadataRequestTopic(name=str(n)) for n in range(2_600)]
    data = b"".join(request_encoder(3, 12)(MetadataRequest(of_one)))
    turns, read = turns_of(request_decoder_in_turns(3, 12)(memoryview(data), 0))
    assert (turns, read.topics) == (2_600 // (ELEMENTS_A_TURN + 1), of_one)
    topics = [
        MetadataResponseTopic(
            name=str(n), partitions=[MetadataResponsePartition() for _ in range(9)]
        )
        for n in range(260)
    ]
    response = MetadataResponse(topics=topics)
    turns, written = turns_of(response_encoder_in_turns(3, 12)(response))
    assert turns == 2_600 // (ELEMENTS_A_TURN + 1)
    assert b"".join(written) == b"".join(response_encoder(3, 12)(response))
    assert len(written) == turns + 1  # what a turn made is joined in that turn


def test_a_large_message_that_is_cut_off_is_refused():
    of_one = [MetadataRequestTopic(name=str(n)) for n in range(2_600)]
    data = b"".join(request_encoder(3, 12)(MetadataRequest(of_one)))
    with pytest.raises(ProtocolError):
        turns_of(request_decoder_in_turns(3, 12)(memoryview(data)[:-4], 0))


def test_a_codec_is_compiled_once():
    assert request_decoder(ApiKey.PRODUCE, 9) is request_decoder(0, 9)


@pytest.mark.parametrize(("key", "version"), [(0, 14), (0, -1), (4, 0), (-1, 0)])
def test_what_has_no_definition_is_refused(key, version):
    for make in (
        request_decoder,
        request_encoder,
        response_decoder,
        response_encoder,
    ):
        with pytest.raises(ProtocolError):
            make(key, version)


def test_a_response_is_brief_where_it_has_no_arrays():
    assert has_brief_response(ApiKey.HEARTBEAT, 4)
    assert not has_brief_response(ApiKey.METADATA, 12)
    assert [has_brief_response(ApiKey.FIND_COORDINATOR, v) for v in (3, 4)] == [
        True,
        False,
    ]
    with pytest.raises(ProtocolError):
        has_brief_response(ApiKey.HEARTBEAT, 99)


def test_versions_are_told_for_known_keys_alone():
    assert known_versions(ApiKey.FETCH) == range(19)
    assert not known_versions(4)
    assert all(known_versions(key) for key in VERSIONS)


def test_null_and_empty_are_not_the_same():
    for topics in (None, []):
        data = b"".join(request_encoder(3, 9)(MetadataRequest(topics)))
        assert request_decoder(3, 9)(memoryview(data), 0).topics == topics


def test_a_field_that_a_version_does_not_carry_has_its_default():
    data = b"".join(request_encoder(1, 0)(FetchRequest(max_bytes=7, rack_id="r")))
    read = request_decoder(1, 0)(memoryview(data), 0)
    assert (read.max_bytes, read.rack_id) == (0x7FFFFFFF, "")
