"""The rare paths of codecs: long varints, tags, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

from broker.protocol.errors import ProtocolError
from broker.protocol.wire import (
    read_tag,
    read_uvarint,
    skip_tags,
    tagged,
    uvarint,
)


@given(st.integers(0, (1 << 31) - 1))
def test_a_varint_is_written_as_others_do_and_read_again(value):
    data = uvarint(value)
    assert data == bytes(UnsignedVarInt32.encode(value))
    if value > 127:
        read = read_uvarint(memoryview(data + b"x"), 1, data[0])
        assert read == (value, len(data))


@pytest.mark.parametrize("data", [b"\x80" * 5 + b"\x01", b"\x80\x80\x80\x80\x08"])
def test_a_varint_out_of_range_is_refused(data):
    with pytest.raises(ProtocolError):
        read_uvarint(memoryview(data), 1, data[0])


@given(st.dictionaries(st.integers(0, 300), st.binary(max_size=200), max_size=4))
def test_a_section_of_tags_is_passed_over_as_a_whole(fields):
    section = tagged(sorted(fields.items()))
    assert section[0] == len(fields)
    end = len(section)
    assert skip_tags(memoryview(section), 1, end, len(fields)) == end


def test_a_tag_is_read_with_the_place_of_its_value():
    section = memoryview(tagged([(200, b"value")]))
    tag, start, stop = read_tag(section, 1, len(section), -1)
    assert (tag, bytes(section[start:stop])) == (200, b"value")


@pytest.mark.parametrize("last", [5, 6])
def test_tags_rise(last):
    with pytest.raises(ProtocolError):
        read_tag(memoryview(b"\x05\x00"), 0, 2, last)
