"""Records become JSON; --from becomes positions; what was written is committed."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from broker.cli.consume import (
    OFFSET_MAX,
    _commit,
    _join,
    as_json,
    check_start,
    millis,
)
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


class Member:
    """A consumer of which a group has two partitions left, as far as it is asked."""

    def __init__(self, refuses=None):
        self._refuses = refuses
        self.committed = {}

    def subscribe(self, topics, on_assign, on_revoke):
        self.gets, self.loses = on_assign, on_revoke

    def assignment(self):
        return [TopicPartition("t", 0), TopicPartition("t", 2)]

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        if self._refuses is not None:
            raise KafkaException(KafkaError(self._refuses))
        self.committed = {part.partition: part.offset for part in offsets}


def test_only_of_what_is_still_assigned_it_is_committed_what_was_written():
    member = Member()
    _commit(member, "t", {0: 5, 1: 7})
    assert member.committed == {0: 5}


def test_nothing_is_committed_where_nothing_was_written():
    _commit(Member(refuses=KafkaError._NO_OFFSET), "t", {1: 7})


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_who_is_in_the_group_no_more_leaves_the_records_to_others(code):
    member = Member(refuses=getattr(KafkaError, code))
    _commit(member, "t", {0: 5})
    assert member.committed == {}


def test_another_refusal_of_a_commit_is_told():
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        _commit(Member(KafkaError.GROUP_AUTHORIZATION_FAILED), "t", {0: 5})


def test_a_member_commits_what_it_loses_and_begins_anew_with_what_it_gets():
    """Or what another one committed meanwhile would go back to where this one was."""
    member, written, partitions = Member(), {0: 5}, {0, 1, 2}
    _join(member, "t", partitions, written)
    member.loses(member, member.assignment())
    assert (member.committed, written) == ({0: 5}, {})
    written[2] = 3
    member.gets(member, [TopicPartition("t", 2)])
    assert (written, partitions) == ({}, {2})
