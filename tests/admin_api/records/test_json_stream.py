"""Concatenated JSON, cut whatever the pieces are."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin_api.problems import Problem
from admin_api.records.json_stream import JsonStream

TEXT = st.text(max_size=4) | st.text('{}[]"\\\\', max_size=4)
VALUES = TEXT | st.none() | st.integers() | st.lists(TEXT, max_size=2)
INNER = VALUES | st.dictionaries(TEXT, VALUES, max_size=2)
OBJECTS = st.lists(st.dictionaries(TEXT, INNER, max_size=2), max_size=3)


@settings(max_examples=60)
@given(OBJECTS, st.sampled_from(["", " ", "\r\n"]), st.integers(1, 9), st.booleans())
def test_every_object_comes_whole_and_in_order(objects, between, size, ascii_only):
    texts = [json.dumps(one, ensure_ascii=ascii_only) for one in objects]
    sent = (between + between.join(texts) + between).encode()
    stream, found = JsonStream(), []
    for start in range(0, len(sent), size):
        found += stream.feed(sent[start : start + size])
    stream.close()
    assert [json.loads(one) for one in found] == objects


def test_an_object_comes_with_its_last_byte():
    stream = JsonStream()
    assert list(stream.feed(b'{"a":"}')) == []
    assert list(stream.feed(b'"}{')) == [b'{"a":"}"}']
    assert list(stream.feed(b"}")) == [b"{}"]


@pytest.mark.parametrize("sent", [b"5", b"[]", b"{}x", b"null", b"}", b"\x00"])
def test_what_is_no_object_is_refused(sent):
    with pytest.raises(Problem, match="JSON objects are expected") as caught:
        list(JsonStream().feed(sent))
    assert caught.value.status == 400


def test_what_came_before_the_fault_is_given():
    found = JsonStream().feed(b'{"a":1} x')
    assert next(found) == b'{"a":1}'
    with pytest.raises(Problem):
        next(found)


@pytest.mark.parametrize("sent", [b"{", b'{"a":"', b'{"a":"\\', b'{"a":[}'])
def test_an_object_that_does_not_end_is_refused_at_the_end(sent):
    stream = JsonStream()
    assert list(stream.feed(sent)) == []
    with pytest.raises(Problem, match="not finished"):
        stream.close()


def test_an_object_that_is_too_long_is_refused_before_it_ends():
    stream = JsonStream(object_bytes_max=100)
    assert list(stream.feed(b'{"a":"' + b"x" * 90)) == []
    with pytest.raises(Problem) as caught:
        list(stream.feed(b"x" * 10))
    assert caught.value.status == 413
