"""Records become JSON; --from becomes positions."""

import pytest

from broker.cli.consume import as_json, millis
from broker.cli.failures import BadUsage


class Message:
    """What librdkafka hands out, as far as it is looked at."""

    def __init__(self, key, value, headers, kind=1):
        self._found = key, value, headers
        self._kind = kind

    def topic(self):
        return "t"

    def partition(self):
        return 3

    def offset(self):
        return 42

    def timestamp(self):
        return self._kind, 1_700_000_000_000

    def key(self):
        return self._found[0]

    def value(self):
        return self._found[1]

    def headers(self):
        return self._found[2]


def test_a_record_is_all_told():
    message = Message(b"k", b"v", [("a", b"1"), ("a", None)], kind=2)
    assert as_json(message) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "timestampType": 1,
        "key": "k",
        "value": "v",
        "headers": [["a", "1"], ["a", None]],
    }


def test_null_and_empty_differ():
    found = as_json(Message(None, b"", None))
    assert (found["key"], found["value"], found["headers"]) == (None, "", [])


def test_bytes_that_are_no_text_are_given_in_base64():
    assert as_json(Message(b"\xff", b"", None))["key"] == {"base64": "/w=="}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00.250+01:00", 250),
        ("2013-01-01T00:00:00+00:00", 1_356_998_400_000),
    ],
)
def test_a_time_is_read_as_iso_8601(text, ms):
    assert millis(text) == ms


@pytest.mark.parametrize("text", ["yesterday", "-5", "1.5", ""])
def test_what_is_no_place_to_start_is_bad_usage(text):
    with pytest.raises(BadUsage, match="--from takes"):
        millis(text)
