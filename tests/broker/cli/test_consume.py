"""Records become JSON; --from becomes positions."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from broker.cli.consume import OFFSET_MAX, _batches, as_json, check_start, millis
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
        ("1969-12-31T23:59:59Z", 0),  # below 0 are words of the protocol
    ],
)
def test_a_time_is_read_as_iso_8601(text, ms):
    assert millis(text) == ms


@pytest.mark.parametrize("text", ["yesterday", "-5", "1.5", ""])
def test_what_is_no_place_to_start_is_bad_usage(text):
    with pytest.raises(BadUsage, match="--from takes"):
        millis(text)


@pytest.mark.parametrize("text", ["beginning", "0", str(OFFSET_MAX), "2026-01-01"])
def test_a_place_to_start_is_a_word_an_offset_or_a_time(text):
    check_start(text, in_group=False)


@pytest.mark.parametrize("text", [str(OFFSET_MAX + 1), "9" * 5000, "²", "soon"])
def test_no_offset_is_larger_than_kafka_has(text):
    with pytest.raises(BadUsage, match="--from takes"):
        check_start(text, in_group=False)


@pytest.mark.parametrize("text", ["7", "2026-01-01", "soon"])
def test_a_group_starts_where_it_is_and_not_at_an_offset(text):
    check_start("end", in_group=True)
    with pytest.raises(BadUsage, match="beginning or end with --group"):
        check_start(text, in_group=True)


class Reader:
    """A consumer with partitions 0 and 1 assigned, that hands out a message a time."""

    def __init__(self, *messages):
        self._left = list(messages)

    def consume(self, count, timeout):
        first = self._left.pop(0) if timeout else None
        return [] if first is None else [first]

    def assignment(self):
        return [TopicPartition("t", 0), TopicPartition("t", 1)]


class Silence:
    """Notes which partitions are looked at."""

    is_long = False

    def __init__(self):
        self.looked = []

    def end(self, partitions):
        list(partitions)

    def look(self, silent):
        self.looked.append(set(silent))


def message(partition, error=None):
    code = None if error is None else KafkaError(error)
    return SimpleNamespace(partition=lambda: partition, error=lambda: code)


def batches(reader, silence, partitions):
    look = SimpleNamespace(check=lambda: None, added=set)
    found = _batches(reader, partitions, True, None, silence, look)
    return [[one.partition() for one in messages] for messages in found]


def ends(*partitions):
    return [message(number, KafkaError._PARTITION_EOF) for number in partitions]


def test_silent_is_what_is_assigned_and_not_at_its_end():
    """Though something came, of another one: no more was there. What the group has not
    given to this member it need not be asked for."""
    silence = Silence()
    reader = Reader(message(0), *ends(0), None, message(1), *ends(1, 2))
    assert batches(reader, silence, {0, 1, 2}) == [[0], [1]]
    assert silence.looked == [{0, 1}, {1}, {1}, {1}, set(), set()]


def test_what_was_added_is_read_to_its_end_too():
    added = iter([{2}, set(), set()])
    look = SimpleNamespace(check=lambda: None, added=lambda: next(added))
    reader = Reader(*ends(0), message(2), *ends(2))
    found = _batches(reader, {0}, True, None, Silence(), look)
    assert [[one.partition() for one in messages] for messages in found] == [[2]]


def test_who_did_not_ask_for_records_for_long_goes_on():
    late = message(-1, KafkaError._MAX_POLL_EXCEEDED)
    reader = Reader(late, message(0), *ends(0))
    assert batches(reader, Silence(), {0}) == [[0]]


def test_another_error_of_the_client_ends_it():
    reader = Reader(message(0, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        batches(reader, Silence(), {0})
