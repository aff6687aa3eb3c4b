"""Filters are cut into words, or it is said where they cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.reading.filter_tokens import (
    LENGTH_MAX,
    FilterError,
    number_of,
    text_of,
    tokens,
)


def words(text):
    return [(one.kind, one.text) for one in tokens(text)][:-1]


def test_words_signs_numbers_and_texts():
    assert words(' a.b[0]!="x" &&-1.5e3 ') == [
        ("name", "a"),
        ("sign", "."),
        ("name", "b"),
        ("sign", "["),
        ("number", "0"),
        ("sign", "]"),
        ("sign", "!="),
        ("text", '"x"'),
        ("sign", "&&"),
        ("number", "-1.5e3"),
    ]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"'it\'s'", "it's"),
        (r'"a\"b"', 'a"b'),
        (r"'\\'", "\\"),
        (r"'\n\t\r\q'", "\n\t\rq"),
        ("''", ""),
    ],
)
def test_texts_have_escapes(written, text):
    [token, _] = tokens(written)
    assert text_of(token) == text


def test_numbers_are_whole_or_not():
    found = [number_of(token) for token in tokens("-7 7.0 1e3") if token.text]
    assert found == [-7, 7.0, 1000.0]
    assert isinstance(found[0], int)


@pytest.mark.parametrize(
    ("text", "at"), [("a = 1", 1), ("'open", 0), ("a & b", 1), ("x == \u0663", 4)]
)
def test_what_is_no_word_is_said_with_its_place(text, at):
    with pytest.raises(FilterError, match=f"at {at}:"):
        list(tokens(text))


def test_length_is_bounded():
    assert list(tokens("1" * LENGTH_MAX))
    with pytest.raises(FilterError, match="longer than"):
        list(tokens("1" * (LENGTH_MAX + 1)))


@given(st.text(max_size=200))
def test_any_text_is_words_or_a_filter_error(text):
    try:
        found = list(tokens(text))
    except FilterError:
        return
    assert [one.kind for one in found].index("end") == len(found) - 1
