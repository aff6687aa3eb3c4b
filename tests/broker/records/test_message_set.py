"""Message sets of magic 0 and 1 become batches and come back, as another codec's do.

kafka-python's codec writes what goes in and reads what comes out.
"""

import re
from contextlib import suppress
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode, KafkaError
from broker.records import message_set
from broker.records.batch import check_produced, read_header, split
from broker.records.compression import compress, compress_gzip_fast
from broker.records.inspect import inspect_batch
from broker.records.layout import HEADER_BYTES
from broker.records.limits import WRAPPERS_MAX
from broker.records.message_set import (
    first_message_bytes,
    to_batch,
    to_message_set,
)
from tests.support.batches import BASE_TIMESTAMP, Record, make_batch, read_batch
from tests.support.message_sets import consumed, message, produced

LZ4_MARK = b"\x04\x22\x4d\x18"
CODECS = [0, 1, 2, 3]
MAGICS = [0, 1]
small = st.one_of(st.none(), st.binary(max_size=40))
records_of = st.lists(
    st.builds(
        Record, key=small, value=small, timestamp=st.integers(-1, BASE_TIMESTAMP * 2)
    ),
    min_size=1,
    max_size=40,
)


def fetched(batches: bytes, magic: int, first_offset: int) -> bytes:
    """What a consumer of that age gets."""
    return b"".join(
        to_message_set(header, batch, magic, first_offset).data
        for header, batch in split(batches)
    )


def known_to(magic: int, records: list[Record]) -> list[Record]:
    """What of records a client of ``magic`` can know, placed at 0, 1, 2 ..."""
    return [
        replace(one, headers=(), offset=i, timestamp=one.timestamp if magic else -1)
        for i, one in enumerate(records)
    ]


def refused(message_set: bytes) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as told:
        to_batch(message_set)
    return told.value.code, told.value.message


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
@given(records=records_of)
def test_a_set_becomes_one_sound_batch(magic, codec, records) -> None:
    batch = to_batch(produced(records, magic, codec))
    header = check_produced(batch, 1 << 30, 2)
    inspect_batch(batch, header)
    assert header.codec == codec
    assert read_batch(batch) == known_to(magic, records)
    assert header.max_timestamp == max(r.timestamp for r in known_to(magic, records))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
@given(records=records_of, base=st.integers(0, 2**40))
def test_a_batch_becomes_what_old_consumers_read(magic, codec, records, base) -> None:
    with_headers = [replace(one, headers=((b"h", b"1"),)) for one in records]
    batch = make_batch(with_headers, base, codec=codec)
    expected = [
        replace(one, offset=base + i) for i, one in enumerate(known_to(magic, records))
    ]
    assert consumed(fetched(batch, magic, base)) == expected


@pytest.mark.parametrize("magic", MAGICS)
def test_gzip_is_made_in_a_hurry_unless_the_topic_wants_it_smaller(magic) -> None:
    records = [Record(value=b"%d: %d of it" % (i, i * i)) for i in range(5000)]
    bare = bytes(to_batch(produced(records, magic, 0)))[HEADER_BYTES:]
    made = produced(records, magic, 1)
    fast = HEADER_BYTES + len(compress_gzip_fast(bare))
    tight = HEADER_BYTES + len(compress(1, bare))
    assert tight < fast
    sizes = [len(to_batch(made, limit)) for limit in (fast, fast - 1, tight, 0)]
    assert sizes == [fast, tight, tight, tight]
    assert read_batch(to_batch(made, tight)) == read_batch(to_batch(made, fast))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_gaps_between_offsets_stay(magic, codec) -> None:
    records = [Record(value=b"%d" % i) for i in range(3)]
    batch = make_batch(records, 70, codec=codec, deltas=[2, 5, 9])
    found = consumed(fetched(batch, magic, 0))
    assert [one.offset for one in found] == [72, 75, 79]


@pytest.mark.parametrize("magic", MAGICS)
def test_bare_and_wrapped_messages_of_one_set_keep_their_order(magic) -> None:
    parts = [
        produced([Record(value=b"%d" % n)], magic, codec)
        for n, codec in enumerate((0, 1, 0, 3))
    ]
    batch = to_batch(b"".join(parts))
    assert read_header(batch).codec == 3
    assert [one.value for one in read_batch(batch)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_what_lies_before_the_offset_asked_for_is_left_out(magic, codec) -> None:
    records = [Record(value=b"%d" % i) for i in range(5)]
    batch = make_batch(records, 10, codec=codec)
    assert [one.offset for one in consumed(fetched(batch, magic, 13))] == [13, 14]
    assert fetched(batch, magic, 15) == b""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_parts_of_a_batch_are_its_whole(magic, codec, monkeypatch) -> None:
    monkeypatch.setattr(message_set, "MESSAGE_SET_BYTES_MAX", 100)
    batch = make_batch([Record(value=b"%02d" % i) for i in range(20)], 10, codec=codec)
    header, found, offset = read_header(batch), [], 10
    while offset <= header.last_offset:
        part = to_message_set(header, batch, magic, offset, 100)
        assert 0 < len(consumed(part.data)) < 6
        assert part.next_offset > offset
        found += consumed(part.data)
        offset = part.next_offset
    assert [(one.offset, one.value) for one in found] == [
        (10 + i, b"%02d" % i) for i in range(20)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_made_at_once_is_bounded(codec) -> None:
    large = bytes(1 << 20)
    batch = make_batch([Record(value=large)] * 40, codec=codec)
    header, offset, parts = read_header(batch), 0, []
    while offset <= header.last_offset:
        part = to_message_set(header, batch, 0, offset)
        found = consumed(part.data)
        assert [one.offset for one in found] == list(range(offset, part.next_offset))
        parts.append(len(found))
        offset = part.next_offset
    assert parts == [16, 16, 8]


def test_the_brokers_time_is_told_to_who_knows_times() -> None:
    for codec in CODECS:
        batch = make_batch(
            [Record(), Record()], codec=codec, attributes=8, max_timestamp=77
        )
        assert {
            (one.timestamp, one.timestamp_type)
            for one in consumed(fetched(batch, 1, 0))
        } == {(77, 1)}


def test_control_and_empty_batches_leave_nothing() -> None:
    control = make_batch([Record()], attributes=0x20)
    assert fetched(control + make_batch([]), 1, 0) == b""


def test_zstd_is_nothing_that_old_clients_know() -> None:
    with pytest.raises(KafkaError) as told:
        fetched(make_batch([Record()], codec=4), 1, 0)
    assert told.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("magic", MAGICS)
def test_old_consumers_get_the_checksum_in_an_lz4_header_that_they_expect(magic):
    """Of magic 0 it is over the frame's mark as well (KAFKA-3160), and so wrong."""
    batch = make_batch([Record(value=b"abc" * 99)], codec=3)
    wrapper = fetched(bytes(batch), magic, 0)
    at = wrapper.index(LZ4_MARK)
    covered = {0: wrapper[at : at + 6], 1: wrapper[at + 4 : at + 6]}
    byte = {m: xxhash.xxh32_intdigest(part) >> 8 & 0xFF for m, part in covered.items()}
    assert byte[0] != byte[1]
    assert wrapper[at + 6] == byte[magic]


def test_magic_0_may_have_the_right_checksum_in_its_lz4_header_as_well() -> None:
    inner = bytes(message(b"a"))
    batch = to_batch(message(compress(3, inner), attributes=3))
    assert read_batch(batch)[0].value == b"a"


@pytest.mark.parametrize(
    ("made", "code", "why"),
    ids=range(15),
    argvalues=[
        (b"", ErrorCode.INVALID_RECORD, "no message"),
        (message(b"a")[:-1], ErrorCode.CORRUPT_MESSAGE, "message 0 .* size"),
        (message(b"a") + b"\0" * 11, ErrorCode.CORRUPT_MESSAGE, "size"),
        (message(b"a")[:-1] + b"b", ErrorCode.CORRUPT_MESSAGE, "checksum"),
        (message(b"a", 1, 8), ErrorCode.INVALID_TIMESTAMP, "broker"),
        (message(b"a", 1, 0, -2), ErrorCode.INVALID_TIMESTAMP, "range"),
        (message(b"a", 1, 0, 2**62), ErrorCode.INVALID_TIMESTAMP, "range"),
        (message(b"", 0, 1), ErrorCode.INVALID_RECORD, "value"),
        (message(b"a", 0, 4), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec"),
        (message(b"nonsense", 0, 1), ErrorCode.CORRUPT_MESSAGE, "damaged"),
        (message(compress(1, b""), 0, 1), ErrorCode.INVALID_RECORD, "without"),
        (
            message(compress(1, message(b"a", 1)), 0, 1),
            ErrorCode.INVALID_RECORD,
            "magic",
        ),
        (
            message(compress(1, message(compress(1, message(b"a")), 0, 1)), 0, 1),
            ErrorCode.INVALID_RECORD,
            "inside another",
        ),
        (
            message(compress(1, message(b"a", 1)), 1, 9),
            ErrorCode.INVALID_TIMESTAMP,
            "broker",
        ),
        (message(b"\0" * 30, 0, 3), ErrorCode.CORRUPT_MESSAGE, "lz4"),
    ],
)
def test_what_is_wrong_is_told(made, code, why) -> None:
    found, text = refused(made)
    assert (found, bool(re.search(why, text))) == (code, True), text


@given(
    records=records_of,
    codec=st.sampled_from(CODECS),
    magic=st.sampled_from(MAGICS),
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
)
def test_a_damaged_set_is_refused_or_read_as_it_was(records, codec, magic, at, byte):
    made = produced(records, magic, codec)
    before = read_batch(to_batch(made))
    made[at % len(made)] = byte
    try:
        after = to_batch(made)
    except KafkaError:
        return
    assert read_batch(after) == before  # only offsets are outside all checksums


@given(rubbish=st.binary(max_size=300))
def test_rubbish_is_an_error_of_the_client(rubbish) -> None:
    for made in (rubbish, message(rubbish, 0, 3), message(rubbish, 1, 2)):
        with suppress(KafkaError):
            to_batch(made)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = message(compress(1, b"\0" * (65 << 20)), 0, 1)
    code, text = refused(bomb)
    assert (code, "more than" in text) == (ErrorCode.INVALID_RECORD, True)
    half = message(compress(1, message(b"\0" * (33 << 20))), 0, 1)
    assert refused(half + half)[0] is ErrorCode.INVALID_RECORD


def test_a_set_is_not_made_of_thousands_of_compressed_ones() -> None:
    one = message(compress(2, message(b"a")), 0, 2)
    assert len(read_batch(to_batch(one * WRAPPERS_MAX))) == WRAPPERS_MAX
    assert refused(one * (WRAPPERS_MAX + 1)) == (
        ErrorCode.INVALID_RECORD,
        f"a set of more than {WRAPPERS_MAX} compressed messages",
    )


def test_the_size_of_the_first_message_is_told() -> None:
    assert first_message_bytes(b"") == 0
    assert first_message_bytes(message(b"abc") + message(b"d")) == len(message(b"abc"))
