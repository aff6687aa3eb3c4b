"""When a committed offset may be forgotten (KIP-211)."""

from broker.groups.offsets import Committed, RetentionState, expired

DAY = 86_400_000
WEEK = 7 * DAY
NAMES = {1: "t", 2: "u"}


def gone(offsets, retention_state, now_ms, retention_ms=WEEK):
    found = expired(
        offsets, retention_state, NAMES.get, now_ms=now_ms, retention_ms=retention_ms
    )
    return list(found)


def test_while_a_group_has_members_nothing_is_forgotten():
    offsets = {(1, 0): Committed(5, committed_ms=0)}
    assert gone(offsets, RetentionState(None), 100 * DAY) == []


def test_an_empty_groups_offsets_live_from_when_it_became_empty():
    offsets = {(1, 0): Committed(5, committed_ms=0)}
    retention_state = RetentionState(empty_since_ms=30 * DAY)
    assert gone(offsets, retention_state, 37 * DAY - 1) == []
    assert gone(offsets, retention_state, 37 * DAY) == [(1, 0)]


def test_a_simple_consumers_offsets_live_from_their_own_commit():
    offsets = {
        (1, 0): Committed(5, committed_ms=10 * DAY),
        (1, 1): Committed(5, committed_ms=12 * DAY),
    }
    assert gone(offsets, RetentionState(empty_since_ms=0), 17 * DAY) == [(1, 0)]


def test_a_retention_of_the_commits_own_is_honoured():
    offsets = {
        (1, 0): Committed(5, committed_ms=0, expires_ms=DAY),
        (1, 1): Committed(5, committed_ms=0, expires_ms=100 * DAY),
    }
    assert gone(offsets, RetentionState(0), DAY - 1) == []
    assert gone(offsets, RetentionState(0), DAY) == [(1, 0)]
    assert gone(offsets, RetentionState(0), 50 * DAY) == [(1, 0)]


def test_of_topics_that_no_member_reads_any_more_the_commit_counts():
    offsets = {
        (1, 0): Committed(5, committed_ms=0),
        (2, 0): Committed(5, committed_ms=0),
    }
    retention_state = RetentionState(None, subscribed=frozenset({"t"}))
    assert gone(offsets, retention_state, WEEK - 1) == []
    assert gone(offsets, retention_state, WEEK) == [(2, 0)]


def test_an_offset_of_a_topic_that_is_gone_means_nothing():
    offsets = {(3, 0): Committed(5, committed_ms=0)}
    assert gone(offsets, RetentionState(None), 0) == [(3, 0)]


def test_of_what_was_said_at_once_none_is_older():
    one, other = Committed(5, committed_ms=7), Committed(6, committed_ms=7)
    assert not one.is_older_than(other)
    assert not other.is_older_than(one)
    assert one.is_older_than(Committed(5, committed_ms=8))
