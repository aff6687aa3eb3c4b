"""The filter language: what it says, what it refuses, and that nothing escapes it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.reading.filter_tokens import LENGTH_MAX, FilterError
from admin_api.reading.filters import JSON_BYTES_MAX, Subject, compile_filter

ORDER = {"user": {"country": "CH", "age": 7, "vip": True}, "items": [{"sku": "a-1"}],
         "odd name": None, "price": 9.5}  # fmt: skip


def subject(key=b"user-1", value=None, **more):
    value = json.dumps(ORDER).encode() if value is None else value
    headers = {"trace": b"abc", "raw": b"\xff", "none": None}
    known = {"partition": 2, "offset": 17, "timestamp_ms": 1000}
    return Subject(key=key, value=value, headers=headers, **(known | more))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "partition == 2 && offset >= 17",
        "offset > 16.5",
        "timestamp < 1001",
        "key == 'user-1'",
        'key startsWith "user" && key endsWith "1" && key contains "er-"',
        "value.user.country == 'CH'",
        "value['user']['country'] == 'CH'",
        "value.user.vip",
        "value.user.vip == true",
        "value.price == 9.5 && value.user.age <= 7",
        "value.items[0].sku == 'a-1'",
        "value['odd name'] == null",
        "value.nobody.there == null",
        "value.items[5] == null",
        "value.items.sku == null",
        "value[0] == null",
        "value contains 'CH'",
        "headers['trace'] == 'abc'",
        "headers['raw'] == null && headers['none'] == null && headers['no'] == null",
        "!(key == 'x') && !!value.user.vip",
        "false || key != 'x'",
        "'a' < 'b'",
        "key.a == null",
        "value.true == null",
    ],
)
def test_what_is_so(text):
    assert compile_filter(text)(subject()) is True


@pytest.mark.parametrize(
    "text",
    [
        "offset == 17.5",
        "offset == '17'",
        "value.user.vip == 1",
        "value.user.age == true",
        "value.user == value.user",
        "value.items",
        "offset",
        "key",
        "null",
        "key < 5",
        "null < 1",
        "true >= true",
        "offset contains '1'",
        "'1' contains offset",
        "value.user.country && true",
        "true && false || false",
        "!true",
    ],
)
def test_what_is_not_so(text):
    assert compile_filter(text)(subject()) is False


def test_and_binds_before_or():
    assert compile_filter("true || false && false")(subject()) is True
    assert compile_filter("(true || false) && false")(subject()) is False


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        b"",
        b"{",
        b"[" * 5000,
        b"9" * 5000,
        b"NaN",
        b'{"a":NaN}',
        b"\xef\xbb\xbf1",
    ],
)
def test_a_value_that_is_no_json_has_nothing_in_it(value):
    assert compile_filter("value.a == null")(subject(value=value))


def test_nulls_and_values_too_long_to_look_into():
    assert compile_filter("key == null && value != null")(subject(key=None))
    assert compile_filter("timestamp == null")(subject(timestamp_ms=None))
    long = json.dumps({"a": "x" * JSON_BYTES_MAX}).encode()
    assert compile_filter("value.a == null && value contains 'xx'")(subject(value=long))


@pytest.mark.parametrize(
    "text",
    [
        "key ==",
        "== 1",
        "(key",
        "key)",
        "key key",
        "1 == 1 == 1",
        "value.",
        "value.5",
        "value[key]",
        "value[-1]",
        "value[1.5]",
        "headers.trace",
        "headers[trace]",
        "headers[text]",
        "headers[5]",
        "nobody == 1",
        "offset end",
        "offset.a",
        "__import__('os')",
        "value.__class__()",
        "lambda",
        "key matches 'a*'",
        "!" * 33 + "true",
        "(" * 33 + "true" + ")" * 33,
        "(" * LENGTH_MAX,
        "true || " * (LENGTH_MAX // 8 + 1) + "true",
    ],
)
def test_what_is_no_filter_says_why(text):
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    assert len(str(caught.value)) > 10


def test_depth_and_length_up_to_their_bounds():
    assert compile_filter("(" * 31 + "true" + ")" * 31)(subject())
    assert compile_filter("false || " * 220 + "true")(subject())


WORDS = st.sampled_from(
    [
        *("key", "value", "headers", "partition", "timestamp", "true", "null", "'a'"),
        *("(", ")", "[", "]", ".", "!", "&&", "||", "==", "!=", "<", "<=", ">", ">="),
        *("contains", "startsWith", "5", "-1.5", "['a']", "[0]", ".a"),
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=20).map(" ".join)),
       st.binary(max_size=30), st.binary(max_size=30))  # fmt: skip
def test_whatever_is_written_is_a_filter_or_is_not(text, key, value):
    try:
        wanted = compile_filter(text)
    except FilterError:
        return
    assert wanted(subject(key=key, value=value)) in (True, False)


def expressions():
    """A filter and what it comes to."""
    plain = st.sampled_from([("true", True), ("false", False), ("1 < 2", True)])

    def joined(parts):
        left, right = parts
        return st.sampled_from(
            [
                (f"({left[0]}) && ({right[0]})", left[1] and right[1]),
                (f"({left[0]}) || ({right[0]})", left[1] or right[1]),
                (f"!({left[0]})", not left[1]),
            ]
        )

    return st.recursive(
        plain, lambda inner: st.tuples(inner, inner).flatmap(joined), max_leaves=12
    )


@given(expressions())
def test_it_comes_to_what_python_makes_of_it(expression):
    text, wanted = expression
    assert compile_filter(text)(subject()) is wanted
