"""Owners are waited for, and no table is held back by that for longer than was said."""

import random

from broker.ids import TopicNumber
from jobs.owners.attempts import Attempts

T, OTHER = TopicNumber(1), TopicNumber(2)
BOUND = 100


def test_an_attempt_is_waited_for_until_its_owner_commits() -> None:
    attempts = Attempts(BOUND)
    assert attempts.waited_for(0) == set()
    attempts.began(T, 0)
    attempts.began(T, 10)
    assert attempts.waited_for(50) == {T}
    attempts.ended(T)
    attempts.ended(OTHER)
    assert attempts.waited_for(50) == set()
    assert attempts.seen == 1


def test_what_failed_is_waited_for_until_the_time_is_over() -> None:
    attempts = Attempts(BOUND)
    attempts.began(T, 5)
    attempts.began(OTHER, 50)
    assert attempts.waited_for(104) == {T, OTHER}
    attempts.began(T, 104)
    assert attempts.waited_for(105) == {OTHER}


def test_after_that_time_nobody_is_waited_for_before_a_commit_of_ours() -> None:
    attempts = Attempts(BOUND)
    attempts.began(T, 0)
    assert attempts.waited_for(BOUND) == set()
    attempts.began(T, BOUND)
    assert attempts.waited_for(BOUND) == set()
    attempts.committed([T, OTHER])
    assert attempts.waited_for(BOUND) == set()
    attempts.began(T, BOUND + 1)
    assert attempts.waited_for(2 * BOUND) == {T}


def test_an_owner_who_commits_all_the_time_gets_no_more() -> None:
    attempts = Attempts(BOUND)
    for now in range(0, 2 * BOUND, 10):
        attempts.began(T, now)
        assert attempts.waited_for(now) == ({T} if now < BOUND else set())
        attempts.ended(T)


def test_a_deleted_topic_is_forgotten() -> None:
    attempts = Attempts(BOUND)
    attempts.began(T, 0)
    attempts.keep([OTHER])
    assert attempts.waited_for(0) == set()


def test_whatever_owners_do_no_commit_of_ours_waits_longer() -> None:
    for seed in range(200):
        chance, attempts, held_ms = random.Random(seed), Attempts(BOUND), 0
        for now in range(1_000):
            match chance.randrange(12):
                case 0 | 1 | 2:
                    attempts.began(T, now)
                case 3:
                    attempts.ended(T)
            if attempts.waited_for(now):
                held_ms += 1
                assert held_ms <= BOUND, seed
            elif chance.random() < 0.5:
                attempts.committed([T])
                held_ms = 0
