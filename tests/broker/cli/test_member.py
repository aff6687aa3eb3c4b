"""What was written is committed, and nothing that may be another member's."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from broker.cli import member
from broker.cli.failures import UserError
from broker.cli.member import Uncommitted, closed_after, commit, join


class Member:
    """A consumer of which a group has two partitions left, as far as it is asked."""

    def __init__(self, refuses=None, answers=True):
        self._refuses, self._answers = refuses, answers
        self.committed = {}
        self.is_closed = False

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        self.gets, self.gives_back, self.loses = on_assign, on_revoke, on_lost

    def assignment(self):
        return [TopicPartition("t", 0), TopicPartition("t", 2)]

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        if not self._answers:
            threading.Event().wait()
        if self._refuses is not None:
            raise KafkaException(KafkaError(self._refuses))
        self.committed = {part.partition: part.offset for part in offsets}

    def close(self):
        self.is_closed = True


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(member, "COMMIT_S", 0.05)


def test_whose_reader_takes_nothing_stays_a_member_for_a_day_and_commits_itself():
    assert member.CONFIG["max.poll.interval.ms"] == 24 * 60 * 60 * 1_000
    assert member.CONFIG["enable.auto.commit"] is False


def test_only_of_what_is_still_assigned_it_is_committed_what_was_written():
    one = Member()
    commit(one, "t", {0: 5, 1: 7})
    assert one.committed == {0: 5}


def test_nothing_is_committed_where_nothing_was_written():
    commit(Member(refuses=KafkaError._NO_OFFSET), "t", {1: 7})


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_who_is_in_the_group_no_more_leaves_the_records_to_others(code):
    one = Member(refuses=getattr(KafkaError, code))
    commit(one, "t", {0: 5})
    assert one.committed == {}


@pytest.mark.parametrize("code", ["UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"])
def test_of_partitions_that_are_gone_nothing_is_to_be_committed(code):
    commit(Member(refuses=getattr(KafkaError, code)), "t", {0: 5})


def test_a_close_is_waited_for_some_seconds(hurried):
    one, never = Member(), threading.Event()
    one.close = never.wait
    with closed_after(one, {}):
        pass
    assert not one.is_closed
    never.set()


def test_another_refusal_of_a_commit_is_told():
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        commit(Member(KafkaError.GROUP_AUTHORIZATION_FAILED), "t", {0: 5})


@pytest.mark.parametrize("code", ["_WAIT_COORD", "_TRANSPORT", "NOT_COORDINATOR"])
def test_where_no_broker_takes_a_commit_the_records_come_again(code):
    said = r"written of t \(partitions 0\) is not committed, and comes to the group"
    with pytest.raises(Uncommitted, match=said):
        commit(Member(getattr(KafkaError, code)), "t", {0: 5, 1: 7})


def test_a_commit_is_waited_for_some_seconds(hurried):
    with pytest.raises(Uncommitted):
        commit(Member(answers=False), "t", {0: 5})


def test_a_member_commits_what_it_gives_back_and_begins_anew_with_what_it_gets():
    """Or what another one committed meanwhile would go back to where this one was."""
    one, written, partitions = Member(), {0: 5}, {0, 1, 2}
    join(one, "t", partitions, written)
    one.gives_back(one, one.assignment())
    assert (one.committed, written) == ({0: 5}, {})
    written[2] = 3
    one.gets(one, [TopicPartition("t", 2)])
    assert (written, partitions) == ({}, {2})


def test_a_broker_that_is_away_ends_no_member_that_gives_back(capsys):
    one, written = Member(KafkaError._WAIT_COORD), {0: 5}
    join(one, "t", set(), written)
    one.gives_back(one, one.assignment())
    assert written == {}
    assert "is not committed, and comes to the group again" in capsys.readouterr().err


def test_what_a_member_lost_it_does_not_commit(capsys):
    one, written = Member(), {0: 5, 2: 1}
    join(one, "t", set(), written)
    one.loses(one, one.assignment())
    one.loses(one, one.assignment())
    assert (one.committed, written) == ({}, {})
    [said] = capsys.readouterr().err.splitlines()
    assert "written of t (partitions 0, 2) is not committed" in said


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt])
def test_a_close_commits_nothing_behind_an_error(error):
    one, written = Member(), {0: 5}
    with pytest.raises(error), closed_after(one, written):
        raise error
    assert (one.is_closed, written) == (True, {})


def test_a_close_does_not_ask_what_is_assigned():
    """librdkafka refuses to say so then, or never answers."""
    one, written = Member(), {0: 5}

    def refuse():
        raise KafkaException(KafkaError(KafkaError._DESTROY))

    join(one, "t", set(), written)
    one.assignment = refuse
    one.close = lambda: one.gives_back(one, [])
    with pytest.raises(UserError, match="gone"), closed_after(one, written):
        raise UserError("gone")


def test_no_close_waits_for_a_commit_that_no_broker_takes():
    one = Member()
    with pytest.raises(Uncommitted), closed_after(one, {0: 5}):
        raise Uncommitted
    assert not one.is_closed
