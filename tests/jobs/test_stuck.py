"""Failures stop what they concern, and are tried again ever more seldom."""

from jobs.stuck import MOVED_PAUSE_MS, PAUSE_MAX_MS, WHOLE_TOPIC, Stuck

TOPIC = (1, WHOLE_TOPIC)


def test_pauses_double_up_to_a_minute_and_the_first_moment_is_kept() -> None:
    stuck, now_ms, pauses = Stuck(), 1_000, []
    for _ in range(9):
        failure = stuck.fail(TOPIC, "why", now_ms)
        assert failure.since_ms == 1_000
        assert not stuck.may_try((1, 5), failure.retry_ms - 1)
        assert stuck.may_try((1, 5), failure.retry_ms)
        pauses.append(failure.retry_ms - now_ms)
        now_ms = failure.retry_ms
    assert pauses[:3] == [1_000, 2_000, 4_000]
    assert pauses[-1] == PAUSE_MAX_MS


def test_a_lost_race_is_not_stuck_and_a_second_failure_is() -> None:
    stuck = Stuck()
    stuck.fail(TOPIC, "race", 0)
    assert list(stuck.stuck()) == []
    assert stuck.failed((1, 0)) == TOPIC
    stuck.fail(TOPIC, "locked", 1_000)
    assert [(key, failure.why) for key, failure in stuck.stuck()] == [(TOPIC, "locked")]
    stuck.clear(1)
    assert list(stuck.stuck()) == []


def test_damage_is_stuck_at_once_and_stops_its_partition_alone() -> None:
    stuck = Stuck()
    stuck.fail((1, 0), "damage", 0, certain=True)
    assert len(list(stuck.stuck())) == 1
    assert not stuck.may_try((1, 0), PAUSE_MAX_MS - 1)
    assert stuck.may_try((1, 1), 0)
    assert stuck.failed((1, 0)) == (1, 0)
    stuck.clear(1, 0)
    assert stuck.may_try((1, 0), 0)


def test_what_nothing_waits_for_is_forgotten() -> None:
    stuck = Stuck()
    keys = [TOPIC, (1, 0), (2, 0), (3, WHOLE_TOPIC), (4, WHOLE_TOPIC)]
    for key in keys:
        stuck.fail(key, "x", 0)
    stuck.keep({(1, 7), (2, 0)}, {3})
    assert [key for key in keys if stuck.failed(key)] == [
        TOPIC, (1, 0), (2, 0), (3, WHOLE_TOPIC),
    ]  # fmt: skip
    stuck.clear(1)
    assert stuck.failed((1, 0)) is None


def test_who_is_held_before_damage_is_stuck_and_not_paused() -> None:
    stuck = Stuck()
    stuck.hold({(1, 0): "a hole"}, 5)
    stuck.hold({(1, 0): "a hole"}, 9)
    assert [(key, failure.since_ms) for key, failure in stuck.stuck()] == [((1, 0), 5)]
    assert stuck.may_try((1, 0), 5)
    stuck.hold({}, 10)
    assert list(stuck.stuck()) == []


def test_a_table_that_moved_is_tried_soon() -> None:
    stuck = Stuck()
    for _ in range(9):
        stuck.fail(TOPIC, "locked", 0)
    stuck.fail((1, 0), "damage", 0, certain=True)
    assert list(stuck.paused(MOVED_PAUSE_MS)) == [1]
    stuck.moved(1)
    assert not stuck.may_try((1, 1), MOVED_PAUSE_MS - 1)
    assert stuck.may_try((1, 1), MOVED_PAUSE_MS)
    assert list(stuck.paused(MOVED_PAUSE_MS)) == []
    assert not stuck.may_try((1, 0), MOVED_PAUSE_MS)
    stuck.moved(2)
    assert stuck.fail(TOPIC, "locked", MOVED_PAUSE_MS).times == 10


def test_a_pause_that_is_short_stays_short_when_the_table_moves() -> None:
    stuck = Stuck()
    failure = stuck.fail(TOPIC, "race", 0)
    stuck.moved(1)
    assert stuck.may_try(TOPIC, failure.retry_ms)


def test_a_request_ends_the_pauses_of_its_topic() -> None:
    stuck = Stuck()
    for key in (TOPIC, (1, 0), (2, 0)):
        stuck.fail(key, "damage", 0, certain=True)
    stuck.end_pauses(1, 5)
    assert stuck.may_try((1, 0), 5)
    assert list(stuck.paused(5)) == []
    assert not stuck.may_try((2, 0), 5)
    assert stuck.fail(TOPIC, "locked", 5).times == 2
    assert not stuck.may_try((1, 0), 5)


def test_a_pause_that_is_over_is_not_begun_anew_by_a_request() -> None:
    stuck = Stuck()
    failure = stuck.fail(TOPIC, "race", 0)
    stuck.end_pauses(1, failure.retry_ms + 9)
    assert stuck.may_try(TOPIC, failure.retry_ms)


def test_a_failure_says_which_request_was_known_when_it_was_tried() -> None:
    stuck = Stuck()
    assert stuck.fail(TOPIC, "locked", 0).request_id == 0
    assert stuck.fail(TOPIC, "locked", 1, request_id=7).request_id == 7
    for request_id in (7, 8):
        stuck.hold({(1, 0): "a hole"}, request_id, request_id=request_id)
    held = dict(stuck.stuck())[1, 0]
    assert (held.since_ms, held.request_id) == (7, 8)


def test_what_stops_at_another_place_now_says_so() -> None:
    stuck, key = Stuck(), (1, 0)
    stuck.hold({key: "the batch at 5"}, 10)
    stuck.hold({key: "the batch at 9"}, 20)
    [(_, failure)] = stuck.stuck()
    assert (failure.why, failure.since_ms) == ("the batch at 9", 10)
