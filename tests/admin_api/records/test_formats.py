"""Keys and values: from JSON to bytes."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.problems import Problem
from admin_api.records.formats import encode, header
from admin_api.records.schemas import ProduceData, ProduceHeader


def data(**said):
    return ProduceData.model_validate(said)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"type": "BINARY", "data": "AP8="}, b"\x00\xff"),
        ({"type": "BINARY", "data": ""}, b""),
        ({"type": "STRING", "data": "ü"}, "ü".encode()),
        (
            {"type": "JSON", "data": {"b": [1, None], "a": "ü"}},
            '{"b":[1,null],"a":"ü"}'.encode(),
        ),
        ({"type": "JSON", "data": 1.5}, b"1.5"),
        ({"type": "JSON", "data": "x"}, b'"x"'),
        ({"type": "JSON", "data": None}, None),
        ({"type": "STRING"}, None),
        ({"type": "BINARY", "data": None}, None),
    ],
)
def test_data_becomes_bytes(said, expected):
    assert encode(data(**said), "value") == expected


def test_no_key_is_null():
    assert encode(None, "key") is None


@given(st.binary())
def test_any_bytes_can_be_sent(sent):
    said = base64.b64encode(sent).decode()
    assert encode(data(type="BINARY", data=said), "value") == sent
    assert header(ProduceHeader(name="h", value=said)) == ("h", sent)


@pytest.mark.parametrize(
    "said",
    [
        {"type": "BINARY", "data": "!"},
        {"type": "BINARY", "data": "abc"},
        {"type": "BINARY", "data": "ü"},
        {"type": "BINARY", "data": 1},
        {"type": "STRING", "data": 1},
        {"type": "STRING", "data": {}},
        {"type": "STRING", "data": "\ud800"},
        {"type": "JSON", "data": "\ud800"},
        {"type": "JSON", "data": float("inf")},
        {"type": "JSON", "data": [float("nan")]},
        {"type": "AVRO", "data": "x"},
        {"data": "x"},
        {"type": "JSON", "schema": "{}", "data": 1},
        {"type": "JSON", "schema_id": 1, "data": 1},
        {"type": "JSON", "subject": "s", "data": 1},
    ],
)
def test_data_that_cannot_be_is_refused_in_words(said):
    with pytest.raises(Problem, match=r"^value: ") as caught:
        encode(data(**said), "value")
    assert caught.value.error_code == 42207


def test_a_header_may_be_null_and_must_be_base64():
    assert header(ProduceHeader(name="h")) == ("h", None)
    with pytest.raises(Problem, match=r"headers\.h"):
        header(ProduceHeader(name="h", value="!"))
