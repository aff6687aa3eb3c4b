"""Records become JSON; --from becomes positions."""

import signal
from contextlib import suppress
from io import BytesIO
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from broker.cli.consume import (
    SECTION_BYTES,
    _batches,
    _print,
    as_json,
    check_start,
    millis,
)
from broker.cli.failures import BadUsage
from broker.cli.options import INT64_MAX


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


@pytest.mark.parametrize("text", ["beginning", "0", str(INT64_MAX), "2026-01-01"])
def test_a_place_to_start_is_a_word_an_offset_or_a_time(text):
    check_start(text, in_group=False)


@pytest.mark.parametrize("text", [str(INT64_MAX + 1), "9" * 5000, "²", "soon"])
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

    assigned = 0, 1

    def __init__(self, *messages):
        self._left = list(messages)

    def consume(self, count, timeout):
        first = self._left.pop(0) if timeout else None
        return [] if first is None else [first]

    def assignment(self):
        return [TopicPartition("t", number) for number in self.assigned]


class Silence:
    """Notes which partitions are looked at."""

    is_long = False

    def __init__(self):
        self.looked = []

    def end(self, partitions):
        list(partitions)

    def look(self, silent):
        self.looked.append(set(silent))


class Look:
    """Notes how it is asked by who is assigned nothing."""

    def __init__(self, added=(), answers=()):
        self._added, self._answers = iter(added), iter(answers)
        self.asked = []

    def added(self):
        return next(self._added, set())

    def check(self):
        pass

    def note_assigned(self):
        self.asked.append("assigned")

    def await_assignment(self):
        self.asked.append("await")

    def is_there(self):
        self.asked.append("is_there")
        return next(self._answers)


def message(partition, error=None, at=0, value=b""):
    code = None if error is None else KafkaError(error)
    return SimpleNamespace(
        partition=lambda: partition,
        error=lambda: code,
        offset=lambda: at,
        value=lambda: value,
    )


def batches(reader, silence, partitions, look=None):
    found = _batches(reader, partitions, True, None, silence, look or Look())
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


def test_what_a_member_holds_when_it_gives_back_is_left_to_the_group():
    """It was committed without that: printed, it would come twice."""
    reader, partitions = Reader(), {0}
    given = iter([[message(0)], [], ends(0), []])

    def consume(count, timeout):
        reader.assigned = (0,) if timeout else ()  # the second call serves it
        return next(given)

    reader.consume = consume
    assert batches(reader, Silence(), partitions, Look(answers=[True])) == []


def test_what_was_added_is_read_to_its_end_too():
    reader = Reader(*ends(0), message(2), *ends(2))
    assert batches(reader, Silence(), {0}, Look(added=[{2}])) == [[2]]


def test_who_is_assigned_nothing_is_at_its_end_if_the_topic_is_there():
    """Before the group has given its partitions it waits, whatever the answer."""
    reader, look, partitions = Reader(), Look(answers=[False, True]), {0, 1}
    reader.assigned = ()
    given = [lambda: None, partitions.clear, lambda: None]
    reader.consume = lambda _count, timeout: given.pop(0)() or []
    assert batches(reader, Silence(), partitions, look) == []
    assert look.asked == ["await", "await", "is_there", "is_there"]
    assert given == []


def test_who_is_assigned_something_asks_for_no_topic_at_its_end():
    look = Look()
    assert batches(Reader(*ends(0)), Silence(), {0}, look) == []
    assert look.asked == ["assigned", "assigned"]


def printed(monkeypatch, output, *messages):
    """What was noted as written after all were, or it failed."""
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output))
    written = {}
    with suppress(KeyboardInterrupt):
        _print([messages], None, False, written)
    return written


@pytest.fixture
def interruptible():
    """Whoever started us: ctrl-C is Python's exception."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupted(BytesIO):
    """Standard output at which ctrl-C comes in the middle of a write."""

    def write(self, data):
        taken = super().write(data)
        signal.raise_signal(signal.SIGINT)
        return taken


@pytest.mark.usefixtures("interruptible")
def test_what_is_written_is_noted_however_it_ends(monkeypatch):
    """In parts of a batch, so that ctrl-C need not wait for all of it."""
    large = b"x" * SECTION_BYTES
    parts = message(0, at=7, value=large), message(1, at=3), message(0, at=8)
    output = Interrupted()
    assert printed(monkeypatch, output, *parts) == {0: 8}
    assert output.getvalue() == large + b"\n"
    output = BytesIO()
    assert printed(monkeypatch, output, *parts) == {0: 9, 1: 4}
    assert output.getvalue() == large + b"\n" * 3


def test_who_did_not_ask_for_records_for_long_goes_on():
    late = message(-1, KafkaError._MAX_POLL_EXCEEDED)
    reader = Reader(late, message(0), *ends(0))
    assert batches(reader, Silence(), {0}) == [[0]]


def test_another_error_of_the_client_ends_it():
    reader = Reader(message(0, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        batches(reader, Silence(), {0})
