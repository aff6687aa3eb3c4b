"""What is read out of a consumer's metadata, and what is not believed."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.subscription import subscribed_topics


def encoded(topics: list[str], rest: bytes = b"", version: int = 0) -> bytes:
    strings = [struct.pack(">h", len(t.encode())) + t.encode() for t in topics]
    return struct.pack(">hi", version, len(topics)) + b"".join(strings) + rest


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5), st.binary(max_size=30))
def test_the_topics_are_read_whatever_follows(topics, rest):
    assert subscribed_topics(encoded(topics, rest, version=3)) == frozenset(topics)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        encoded(["t"])[:-1],
        encoded(["t"], version=-1),
        encoded(["t"], version=-256),  # both bytes are of the version
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -1) + b"xxxx",
        struct.pack(">hih", 0, 1, 1) + b"\xff",
    ],
)
def test_what_does_not_parse_is_unknown(metadata):
    assert subscribed_topics(metadata) is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_unknown(metadata):
    topics = subscribed_topics(metadata)
    assert topics is None or isinstance(topics, frozenset)
