"""Beyond the bytes: records are not copied, small parts are one piece."""

import struct

import pytest

from broker.protocol.codec import response_decoder, response_encoder
from broker.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from broker.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker


def fetch(*partitions: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse("t", bytes(16), list(partitions))
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_are_elements_of_their_own_and_the_same_buffers(version):
    batches = [memoryview(b"first"), b"second", memoryview(bytearray(b"third"))]
    buffers = response_encoder(1, version)(
        fetch(PartitionData(0, records=batches), PartitionData(1, records=b"alone"))
    )
    assert [type(b) for b in buffers[:1]] == [bytes]
    assert all(a is b for a, b in zip(buffers[1:4], batches, strict=True))
    assert buffers[5] == b"alone"
    read = response_decoder(1, version)(memoryview(b"".join(buffers)), 0)
    partitions = read.responses[0].partitions
    assert [bytes(p.records) for p in partitions] == [b"firstsecondthird", b"alone"]


@pytest.mark.parametrize("version", [4, 12])
def test_no_records_are_empty_and_null_records_are_null(version):
    buffers = response_encoder(1, version)(
        fetch(
            PartitionData(0, records=[]),
            PartitionData(1, records=b""),
            PartitionData(2, records=None),
        )
    )
    assert len(buffers) == 1
    read = response_decoder(1, version)(memoryview(buffers[0]), 0)
    assert [p.records for p in read.responses[0].partitions] == [b"", b"", None]


def test_small_parts_are_one_piece():
    brokers = [MetadataResponseBroker(i, "host", 9092) for i in range(50)]
    buffers = response_encoder(3, 12)(MetadataResponse(brokers=brokers))
    assert [type(b) for b in buffers] == [bytes]


def test_what_equals_its_default_is_not_said():
    silent = response_encoder(1, 12)(fetch(PartitionData()))
    default = PartitionData(
        diverging_epoch=EpochEndOffset(), current_leader=LeaderIdAndEpoch()
    )
    assert response_encoder(1, 12)(fetch(default)) == silent
    leader = PartitionData(current_leader=LeaderIdAndEpoch(1, 0))
    said = response_encoder(1, 12)(fetch(leader))
    read = response_decoder(1, 12)(memoryview(said[0]), 0)
    assert read == fetch(leader)
    assert len(said[0]) == len(silent[0]) + 11


def test_a_value_that_does_not_fit_is_our_mistake():
    with pytest.raises(struct.error):
        response_encoder(1, 4)(fetch(PartitionData(error_code=1 << 15)))
