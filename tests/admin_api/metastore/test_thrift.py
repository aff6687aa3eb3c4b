"""Calls are taken apart and answers put together as Thrift's binary protocol has it."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.metastore import thrift
from admin_api.metastore.thrift import (
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    MESSAGE_BYTES_MAX,
    SET,
    STRING,
    STRUCT,
    VALUES_MAX,
    Call,
    Calls,
    NotThrift,
    field,
    many,
    pairs,
    record,
    text,
)
from tests.support.metastore import decode_call


def call(body: bytes, name: str = "get_table", number: int = 7, kind: int = 1) -> bytes:
    head = struct.pack(">I", 0x80010000 | kind)
    return head + text(name) + thrift.integer(number) + body


ASKED = call(
    record(
        field(STRING, 1, text("lakelog")),
        field(LIST, 2, thrift.texts(["a", "ü"])),
        field(BOOL, 3, thrift.flag(True)),
        field(BYTE, 4, b"\xff"),
        field(I16, 5, struct.pack(">h", -2)),
        field(I32, 6, thrift.integer(3)),
        field(I64, 7, struct.pack(">q", 1 << 40)),
        field(DOUBLE, 8, struct.pack(">d", 0.5)),
        field(MAP, 9, pairs({"k": "v"})),
        field(SET, 10, many(I32, [thrift.integer(9)])),
        field(STRUCT, 11, record(field(STRING, 1, text("x")))),
    )
)


def test_a_call_has_its_arguments_by_their_numbers() -> None:
    found = decode_call(ASKED + b"and the next")
    assert found == Call(
        "get_table",
        7,
        {
            1: b"lakelog", 2: [b"a", "ü".encode()], 3: True, 4: -1, 5: -2, 6: 3,
            7: 1 << 40, 8: 0.5, 9: [(b"k", b"v")], 10: [9], 11: {1: b"x"},
        },
        len(ASKED),
    )  # fmt: skip


def test_a_call_that_is_not_there_as_a_whole_is_waited_for() -> None:
    assert {decode_call(ASKED[:end]) for end in range(len(ASKED))} == {None}


def test_a_call_that_comes_byte_by_byte_is_looked_at_once() -> None:
    """As it is sent, and as often as a server would look."""
    coming, found = Calls(), []
    for n in range(len(ASKED + ASKED)):
        coming.feed((ASKED + ASKED)[n : n + 1])
        found.append(coming.next())
    assert [one for one in found if one is not None] == [decode_call(ASKED)] * 2
    assert not coming.is_begun
    many_names = call(record(field(LIST, 1, thrift.texts(["a"] * 40_000))))
    coming, began_s = Calls(), time.process_time()
    for n in range(0, len(many_names), 64):
        coming.feed(many_names[n : n + 64])
        last = coming.next()
    assert last is not None
    whole_s, began_s = time.process_time() - began_s, time.process_time()
    assert decode_call(many_names) == last
    assert whole_s < 50 * (time.process_time() - began_s), "3,000 pieces"


def test_who_wants_no_answer_says_so() -> None:
    found = decode_call(call(record(), kind=4))
    assert found is not None
    assert not found.wants_answer


@pytest.mark.parametrize(
    "received",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        call(record(), kind=2),  # an answer
        call(b"\x05\x00\x01"),  # a type that there is not
        call(field(STRING, 1, struct.pack(">i", -1))),
        call(field(STRING, 1, struct.pack(">i", MESSAGE_BYTES_MAX + 1))),
        call(field(LIST, 1, struct.pack(">bi", STRING, 1 << 30))),
        call(field(STRUCT, 1, b"\x0c\x00\x01" * 50)),
        call(field(LIST, 1, many(BOOL, [b"\x01"] * (VALUES_MAX + 1)))),
        call(field(LIST, 1, many(LIST, [many(BOOL, [b"\x01"] * 9)] * VALUES_MAX))),
        call(field(STRING, 1, struct.pack(">i", MESSAGE_BYTES_MAX)))
        + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_what_is_no_call_ends_the_connection(received: bytes) -> None:
    with pytest.raises(NotThrift):
        decode_call(received + b"x" * MESSAGE_BYTES_MAX)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_call_or_more_is_wanted_or_it_is_none(body: bytes) -> None:
    for received in (body, call(body)):
        try:
            found = decode_call(received)
        except NotThrift:
            continue
        assert found is None or found.size <= len(received)


def test_answers_have_the_name_and_number_of_their_call() -> None:
    asked = decode_call(ASKED)
    assert asked is not None
    head = text("get_table") + thrift.integer(7)
    given_ = thrift.reply(asked, record(field(STRING, 0, text("y"))))
    assert given_ == b"\x80\x01\x00\x02" + head + b"\x0b\0\0\0\0\0\x01y\0"
    refused = thrift.refusal(asked, "no")
    unknown_method = b"\x08\0\x02\0\0\0\x01\0"
    assert refused == b"\x80\x01\x00\x03" + head + b"\x0b\0\x01\0\0\0\x02no" + (
        unknown_method
    )
