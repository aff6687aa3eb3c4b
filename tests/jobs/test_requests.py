"""A request waits for what was durable when it came, and for nothing else."""

from broker.catalog.requests import FlushRequest
from broker.topics.topic import Topic
from jobs.requests import Requests

TOPICS = {n: Topic(n, bytes(16), f"t{n}", 1) for n in (1, 2)}


def test_it_is_done_when_the_tables_reach_what_was_durable() -> None:
    one = [FlushRequest(7, ("t1",), 0)]
    requests = Requests()
    durable = {(1, 0): 10, (2, 0): 5}
    assert requests.look(one, TOPICS, durable, {}, {}) == []
    assert requests.topics == {1}
    later = {(1, 0): 99, (2, 0): 5}
    assert requests.look(one, TOPICS, later, {(1, 0): 9}, {}) == []
    assert requests.look(one, TOPICS, later, {(1, 0): 10}, {}) == [7]
    assert requests.topics == frozenset()


def test_all_topics_or_none() -> None:
    durable = {(1, 0): 10, (2, 0): 5, (3, 0): 1}
    requests = Requests()
    everything = [FlushRequest(1, None, 0)]
    assert requests.look(everything, TOPICS, durable, {}, {}) == []
    assert requests.topics == {1, 2}
    assert requests.look(everything, TOPICS, durable, {(1, 0): 10, (2, 0): 5}, {}) == [
        1
    ]
    assert Requests().look([FlushRequest(2, ("no",), 0)], TOPICS, durable, {}, {}) == [
        2
    ]


def test_a_topic_that_goes_is_not_waited_for() -> None:
    requests = Requests()
    one = [FlushRequest(1, ("t1",), 0)]
    assert requests.look(one, TOPICS, {(1, 0): 10}, {}, {}) == []
    assert requests.look(one, {2: TOPICS[2]}, {}, {}, {}) == [1]
    assert requests.look([], TOPICS, {}, {}, {}) == []


def test_a_request_is_new_once() -> None:
    requests = Requests()
    one, two = FlushRequest(7, ("t1", "gone"), 0), FlushRequest(8, ("t2",), 0)
    assert requests.newest == 0
    assert requests.take_in([one], TOPICS) == {1}
    assert requests.take_in([one], TOPICS) == set()
    assert requests.take_in([one, two], TOPICS) == {2}
    assert requests.take_in([FlushRequest(9, None, 0)], TOPICS) == {1, 2}
    assert requests.take_in([], TOPICS) == set()
    assert requests.newest == 9


def test_what_the_log_has_given_up_is_not_waited_for() -> None:
    one = [FlushRequest(7, ("t1",), 0)]
    requests = Requests()
    durable = {(1, 0): 10}
    assert requests.look(one, TOPICS, durable, {(1, 0): 3}, {(1, 0): 9}) == []
    assert requests.look(one, TOPICS, {}, {(1, 0): 3}, {(1, 0): 10}) == [7]


def test_what_the_table_keeps_for_longer_is() -> None:
    one = [FlushRequest(7, ("t1",), 0)]
    topics = {1: Topic(1, bytes(16), "t1", 1, {"lake.retention.ms": "-1"})}
    requests = Requests()
    durable, starts = {(1, 0): 10}, {(1, 0): 10}
    assert requests.look(one, topics, durable, {(1, 0): 3}, starts) == []
    assert requests.look(one, topics, durable, {(1, 0): 10}, starts) == [7]
