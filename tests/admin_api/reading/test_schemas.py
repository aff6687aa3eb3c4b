"""Bytes are shown as text where they are, and come back as they were."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.reading.schemas import Encoding, shown


@given(st.binary(max_size=50))
def test_what_is_shown_is_what_was_there(data):
    found = shown(data)
    if found.type == Encoding.TEXT:
        assert found.data.encode() == data
    else:
        assert base64.b64decode(found.data) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Encoding.TEXT),
        (b"hello\tthere\r\n", Encoding.TEXT),
        ("grüezi 💥".encode(), Encoding.TEXT),
        (b"\x00\x00\x00\x01", Encoding.BASE64),
        (b"a\x1b[0m", Encoding.BASE64),
        (b"\xff", Encoding.BASE64),
        (b"\x7f", Encoding.BASE64),
    ],
)
def test_control_characters_are_no_text(data, kind):
    assert shown(data).type == kind


def test_nothing_is_null():
    assert shown(None) is None
