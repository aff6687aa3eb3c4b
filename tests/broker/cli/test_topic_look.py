"""A topic is looked at once a minute: what was added is taken, what is gone is said."""

from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from broker.cli.failures import UserError
from broker.cli.silence import LONG_MS
from broker.cli.topic_look import EVERY_MS, UNASSIGNED_EVERY_MS, TopicLook
from tests.support.clock import ManualClock


class Reader:
    """A consumer, as far as it is asked for the topic's partitions."""

    def __init__(self):
        self.partitions, self.error, self.asked, self.taken = {0, 1}, None, 0, []

    def list_topics(self, topic, timeout):
        assert timeout <= 1
        self.asked += 1
        if self.error == KafkaError._TRANSPORT:
            raise KafkaException(KafkaError(self.error))
        error = None if self.error is None else KafkaError(self.error)
        parts = dict.fromkeys(self.partitions) if error is None else {}
        return SimpleNamespace(
            topics={topic: SimpleNamespace(partitions=parts, error=error)}
        )

    def incremental_assign(self, parts):
        self.taken += [(part.topic, part.partition, part.offset) for part in parts]

    def unassign(self):
        self.taken = []


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def look(reader, clock):
    return TopicLook(reader, "t", {0, 1}, False, {}, clock)


def test_what_was_added_is_read_from_its_beginning(look, reader, clock):
    reader.partitions = {0, 1, 2, 3}
    clock.advance(EVERY_MS)
    assert look.added() == {2, 3}
    assert reader.taken == [("t", n, OFFSET_BEGINNING) for n in (2, 3)]
    clock.advance(EVERY_MS)
    assert look.added() == set()
    assert len(reader.taken) == 2


def test_it_is_asked_once_a_minute(look, reader, clock):
    clock.advance(EVERY_MS - 1)
    look.added()
    assert reader.asked == 0
    clock.advance(1)
    look.added()
    look.added()
    assert reader.asked == 1


def test_a_member_gets_what_was_added_from_its_group(reader, clock):
    look = TopicLook(reader, "t", {0, 1}, True, {}, clock)
    reader.partitions = {0, 1, 2}
    clock.advance(EVERY_MS)
    assert (look.added(), reader.taken) == (set(), [])


def test_a_topic_that_is_gone_is_said_once_until_it_is_there(
    look, reader, clock, capsys
):
    said = []
    for error in [KafkaError.UNKNOWN_TOPIC_OR_PART, None] * 2:
        reader.error = error
        for _ in range(2):
            clock.advance(EVERY_MS)
            look.added()
            said.append(capsys.readouterr().err)
    assert said[0] == said[4]
    assert said[0].startswith("lakelog: there is no topic 't' any more; ")
    assert not any(said[1:4] + said[5:])


def test_one_that_is_made_again_is_read_from_its_beginning(look, reader, clock):
    """By nobody before it is found: librdkafka would go on where it was in the old
    one."""
    reader.taken = [("t", 0, 7), ("t", 1, 9)]
    reader.error, reader.partitions = KafkaError.UNKNOWN_TOPIC_OR_PART, {0, 1, 2}
    clock.advance(EVERY_MS)
    assert (look.added(), reader.taken) == (set(), [])
    reader.error = KafkaError.LEADER_NOT_AVAILABLE
    clock.advance(UNASSIGNED_EVERY_MS)
    assert (look.added(), reader.taken) == (set(), [])
    reader.error = None
    clock.advance(UNASSIGNED_EVERY_MS)
    assert look.added() == {0, 1, 2}
    assert reader.taken == [("t", n, OFFSET_BEGINNING) for n in (0, 1, 2)]
    clock.advance(EVERY_MS)
    assert look.added() == set()


def test_a_member_loses_and_gets_it_by_its_group(reader, clock):
    look = TopicLook(reader, "t", {0, 1}, True, {}, clock)
    reader.taken = [("t", 0, 7)]
    for error in [KafkaError.UNKNOWN_TOPIC_OR_PART, None]:
        reader.error = error
        clock.advance(EVERY_MS)
        assert (look.added(), reader.taken) == (set(), [("t", 0, 7)])


def test_one_that_is_gone_is_asked_for_every_few_seconds(look, reader, clock):
    reader.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    clock.advance(EVERY_MS)
    for asked, error in [(1, reader.error), (2, KafkaError._TRANSPORT), (3, None)]:
        look.added()
        assert reader.asked == asked
        reader.error = error
        clock.advance(UNASSIGNED_EVERY_MS - 1)
        look.added()
        assert reader.asked == asked
        clock.advance(1)
    look.added()
    assert reader.asked == 4
    clock.advance(EVERY_MS - 1)
    look.added()
    assert reader.asked == 4


def test_of_a_topic_that_is_gone_nothing_is_committed_for_one_made_again(reader, clock):
    written = {0: 7}
    look = TopicLook(reader, "t", {0, 1}, True, written, clock)
    for error in ["_TRANSPORT", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART"]:
        assert written == {0: 7}
        reader.error = getattr(KafkaError, error)
        clock.advance(EVERY_MS)
        look.added()
    assert written == {}


def test_the_end_of_a_topic_that_is_gone_is_waited_for_no_more(look, reader, clock):
    look.check()
    reader.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    clock.advance(EVERY_MS)
    look.added()
    with pytest.raises(UserError, match=r"^not at its end: there is no topic 't' any"):
        look.check()


@pytest.mark.parametrize("error", ["_TRANSPORT", "LEADER_NOT_AVAILABLE"])
def test_where_no_broker_says_it_nothing_is_said(look, reader, clock, capsys, error):
    reader.error = getattr(KafkaError, error)
    clock.advance(EVERY_MS)
    assert look.added() == set()
    assert capsys.readouterr().err == ""


def test_who_is_assigned_nothing_looks_every_few_seconds(look, reader, clock):
    asked = []
    for _ in range(3):
        look.await_assignment()
        look.await_assignment()
        asked.append(reader.asked)
        clock.advance(UNASSIGNED_EVERY_MS)
    assert asked == [0, 1, 2]
    look.note_assigned()
    look.await_assignment()
    assert reader.asked == 2


def test_that_it_is_there_is_asked_when_it_is_to_be_known(look, reader):
    assert look.is_there()
    reader.error = KafkaError._TRANSPORT
    assert not look.is_there()
    reader.error = KafkaError.LEADER_NOT_AVAILABLE
    assert look.is_there()
    reader.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(UserError, match=r"^not at its end: there is no topic 't' any"):
        look.is_there()


def test_who_is_assigned_nothing_waits_for_no_broker_for_long(look, reader, clock):
    """Long is without any answer, and from the first look on that had none."""
    reader.error = KafkaError._TRANSPORT
    for forget in (lambda: answer(look, reader), look.note_assigned, lambda: None):
        look.is_there()
        clock.advance(LONG_MS - 1)
        look.await_assignment()
        look.is_there()
        forget()
        clock.advance(1)
    with pytest.raises(UserError, match=r"^not at the end: nothing of t is assigned, "):
        look.is_there()


def answer(look, reader):
    reader.error = None
    assert look.is_there()
    reader.error = KafkaError._TRANSPORT
