"""Markers: the bytes are Apache Kafka's, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import assign, checksum, read_header, seal
from broker.records.markers import MARKER_BYTES, Marker, marker_batch, read_marker

NOW_MS = 1_700_000_000_123

# MemoryRecords.withEndTransactionMarker of Apache Kafka 4.3.1
GOLDEN = [
    (
        (0, NOW_MS, 0, 1000, 0, Marker(True)),
        "000000000000000000000042000000000210a353fb0030000000000000018bcfe5687b0000018b"
        "cfe5687b00000000000003e80000ffffffff000000012000000008000000010c00000000000000",
    ),
    (
        (4711, NOW_MS, 0, 1000, 7, Marker(False)),
        "000000000000126700000042000000000224d4199e0030000000000000018bcfe5687b0000018b"
        "cfe5687b00000000000003e80007ffffffff000000012000000008000000000c00000000000000",
    ),
    (
        (123456789012, 0, 5, 9007199254740993, 32767, Marker(True, 42)),
        "0000001cbe991a140000004200000005022bdca5d3003000000000000000000000000000000000"
        "0000000000200000000000017fffffffffff000000012000000008000000010c00000000002a00",
    ),
    (
        (1, -1, 0, 0, 1, Marker(False, 2**31 - 1)),
        "00000000000000010000004200000000021a5968ea003000000000ffffffffffffffffffffffff"
        "ffffffff00000000000000000001ffffffff000000012000000008000000000c00007fffffff00",
    ),
]


@pytest.mark.parametrize(("fields", "text"), GOLDEN)
def test_a_marker_is_byte_for_byte_kafkas(fields, text) -> None:
    base, now_ms, leader_epoch, producer_id, epoch, marker = fields
    batch = marker_batch(producer_id, epoch, marker, now_ms)
    assign(batch, base, leader_epoch)
    assert batch.hex() == text
    assert read_marker(bytes.fromhex(text)) == marker


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 100),
)
def test_what_is_written_is_read_wherever_it_lies(
    producer_id, epoch, commit, coordinator_epoch, position
) -> None:
    marker = Marker(commit, coordinator_epoch)
    batch = marker_batch(producer_id, epoch, marker, NOW_MS)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch) == (producer_id, epoch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.record_count) == (-1, 1)
    assert checksum(batch) == header.crc
    assert read_marker(bytes(position) + batch + b"more", position) == marker


@given(st.booleans(), st.integers(0, 2**62), st.integers(0, 2**40))
def test_a_marker_says_where_its_transaction_begins(commit, start, count) -> None:
    base = start + count
    marker = Marker(commit).starting(start, base)
    has_room = count <= 2**31 - 2
    assert marker.commit is commit
    assert marker.start(base) == (start if has_room else None)
    assert read_marker(marker_batch(1, 0, marker, NOW_MS)) == marker


@pytest.mark.parametrize("epoch", [-1, 0, 1, 2**31 - 1])
def test_a_coordinators_epoch_says_nothing_of_it(epoch: int) -> None:
    marker = Marker(True, epoch)
    assert marker.start(5) is None
    assert marker.starting(None, 5) is marker


def refused(batch: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        read_marker(batch)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("kind", [2, 3, -1])
def test_another_kind_of_control_record_is_no_marker(kind: int) -> None:
    batch = marker_batch(1, 0, Marker(True), NOW_MS)
    batch[68:70] = kind.to_bytes(2, "big", signed=True)
    refused(batch)


# Where the record's own bytes lie; of the value only the coordinator's epoch varies.
FIXED = [at for at in range(61, MARKER_BYTES) if at not in (68, 69, 73, 74, 75, 76)]


@pytest.mark.parametrize("at", FIXED)
def test_a_record_of_another_shape_is_no_marker(at: int) -> None:
    batch = marker_batch(1, 0, Marker(False), NOW_MS)
    batch[at] ^= 1
    seal(batch)
    refused(batch)


@pytest.mark.parametrize("attributes", [0, 0x10, 0x20, 0x31, 0x38])
def test_a_batch_that_is_no_plain_control_batch_is_no_marker(attributes: int) -> None:
    batch = marker_batch(1, 0, Marker(False), NOW_MS)
    batch[21:23] = attributes.to_bytes(2, "big")
    refused(batch)


@pytest.mark.parametrize("length", [0, 60, 61, MARKER_BYTES - 1])
def test_a_marker_that_is_cut_off_is_refused(length: int) -> None:
    refused(bytes(marker_batch(1, 0, Marker(True), NOW_MS))[:length])
