"""A fetch session: what is due, what is answered, and in which order."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from broker.fetching.session import (
    EPOCH_MAX,
    PARTITION_BYTES,
    TURN_PARTITIONS,
    UNKNOWN,
    FetchSession,
    SessionPartition,
    wake,
)
from broker.protocol.messages.fetch import FetchPartition

TOPIC_ID = b"t" * 16


@dataclass(eq=False)
class Log:
    """A log that holds offsets from ``start`` to ``end``."""

    start: int = 0
    end: int = 0
    watchers: dict[SessionPartition, FetchSession] = field(default_factory=dict)

    def move(self, *, start: int = 0, end: int = 0) -> None:
        self.start, self.end = self.start + start, self.end + end
        wake(self)


Answered = tuple[int, int, int, bool, bool]
"""Partition, end, start, whether there are records, whether an error."""


class Served:
    """A session whose partitions are logs, asked as a broker asks it."""

    def __init__(self, count: int = 0) -> None:
        self.session = FetchSession(by_id=False)
        self.logs = [Log() for _ in range(count)]
        self.looked_at = 0

    def update(self, index: int, offset: int) -> None:
        self.session.update("t", TOPIC_ID, FetchPartition(index, fetch_offset=offset))

    def fetch(self, records_max: int = 1 << 30) -> list[Answered]:
        found = []
        for partition in self.session.due():
            self.looked_at += 1
            log = self.logs[partition.asked.partition]
            data = looked_at(log, partition.asked, records_max)
            end, start, has_records, has_error = data
            records_max -= has_records
            if self.session.answer(
                partition,
                high_watermark=end,
                log_start=start,
                has_records=has_records,
                has_error=has_error,
            ):
                found.append((partition.asked.partition, *data))
            if not has_error and partition.asked.fetch_offset == log.end:
                self.session.rest(partition, log)
        return found


def looked_at(
    log: Log, asked: FetchPartition, records_max: int
) -> tuple[int, int, bool, bool]:
    """What a partition gives: end, start, whether records, whether an error."""
    if not log.start <= asked.fetch_offset <= log.end:
        return UNKNOWN, UNKNOWN, False, True
    has_records = asked.fetch_offset < log.end and records_max > 0
    return log.end, log.start, has_records, False


class Naive:
    """What Kafka does: each fetch looks at every partition."""

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs
        self.partitions: dict[int, FetchPartition] = {}
        self.known: dict[int, tuple[int, int]] = {}

    def update(self, index: int, offset: int) -> None:
        self.partitions[index] = FetchPartition(index, fetch_offset=offset)
        self.known.setdefault(index, (UNKNOWN, UNKNOWN))

    def forget(self, index: int) -> None:
        self.partitions.pop(index, None)
        self.known.pop(index, None)

    def fetch(self, records_max: int) -> list[Answered]:
        found: list[Answered] = []
        for index, asked in list(self.partitions.items()):
            data = looked_at(self.logs[index], asked, records_max)
            end, start, has_records, has_error = data
            records_max -= has_records
            if has_records or has_error or (end, start) != self.known[index]:
                found.append((index, *data))
            self.known[index] = (UNKNOWN if has_error else end), start
            if has_records:
                self.partitions[index] = self.partitions.pop(index)
        return found


COUNT = 5
PLACES = st.integers(0, COUNT - 1)
STEPS = st.one_of(
    st.tuples(st.just("update"), PLACES, st.integers(0, 4)),
    st.tuples(st.just("forget"), PLACES, st.just(0)),
    st.tuples(st.just("append"), PLACES, st.integers(1, 2)),
    st.tuples(st.just("trim"), PLACES, st.integers(1, 2)),
    st.tuples(st.just("fetch"), st.integers(0, 3), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_looking_at_what_is_due_is_as_good_as_looking_at_everything(
    steps: list[tuple[str, int, int]],
) -> None:
    served = Served(COUNT)
    naive = Naive(served.logs)
    for what, at, number in steps:
        log = served.logs[at]
        match what:
            case "update":
                served.update(at, number)
                naive.update(at, number)
            case "forget":
                served.session.forget("t", TOPIC_ID, at)
                naive.forget(at)
            case "append":
                log.move(end=number)
            case "trim":
                log.move(start=min(number, log.end - log.start))
            case "fetch":
                assert served.fetch(at) == naive.fetch(at)
        watched = {one for log in served.logs for one in log.watchers}
        assert len(served.session) == len(naive.partitions)
        assert len(watched) == len(served.session) - served.session.due_count
        weight = len(naive.partitions) * (PARTITION_BYTES + len("t"))
        assert served.session.weight_bytes == weight
    assert served.fetch() == naive.fetch(1 << 30)
    list(served.session.close())
    assert not any(log.watchers for log in served.logs)


def test_of_thousands_only_what_has_moved_is_looked_at() -> None:
    served = Served(10_000)
    for index in range(10_000):
        served.update(index, 0)
    assert len(served.fetch()) == 10_000
    assert served.fetch() == []
    served.looked_at = 0
    served.logs[7].move(end=1)
    assert served.fetch() == [(7, 1, 0, True, False)]
    served.update(7, 1)
    assert served.fetch() == []
    assert served.fetch() == []
    assert served.looked_at == 2


def test_what_was_answered_with_records_is_the_last_in_the_next_answer() -> None:
    served = Served(3)
    for index in (2, 0, 1):
        served.update(index, 0)
        served.logs[index].move(end=9)
    given_out = [[at[0] for at in served.fetch(1) if at[3]] for _ in range(6)]
    assert given_out == [[2], [0], [1], [2], [0], [1]]


def test_an_error_is_answered_each_time_and_its_end_tells_the_end_again() -> None:
    served = Served(1)
    served.update(0, 3)
    assert served.fetch() == served.fetch() == [(0, UNKNOWN, UNKNOWN, False, True)]
    served.logs[0].move(end=3)
    assert served.fetch() == [(0, 3, 0, False, False)]
    assert served.fetch() == []


def test_what_wakes_is_handed_over_once() -> None:
    served = Served(2)
    served.update(0, 0)
    served.update(1, 0)
    served.fetch()
    session = served.session
    assert session.take_woken(9) == []
    served.logs[1].move(end=1)
    served.logs[1].move(end=1)
    assert [one.asked.partition for one in session.take_woken(9)] == [1]
    assert session.take_woken(9) == []
    served.logs[0].move(end=1)
    assert len(session.due()) == 2
    assert session.take_woken(9) == []
    served.update(0, 1)
    served.fetch()
    served.logs[0].move(end=1)
    session.forget("t", TOPIC_ID, 0)
    assert session.take_woken(9) == []


def test_what_wakes_is_handed_over_in_parts_if_it_is_much() -> None:
    served = Served(3)
    for index in range(3):
        served.update(index, 0)
    served.fetch()
    for index in (2, 0, 1):
        served.logs[index].move(end=1)
    found = []
    while served.session.woken_count:
        found.append([one.asked.partition for one in served.session.take_woken(2)])
    assert found == [[2, 0], [1]]


def test_partitions_of_two_topics_are_told_apart_by_what_names_them() -> None:
    by_name, by_id = FetchSession(by_id=False), FetchSession(by_id=True)
    for session in (by_name, by_id):
        for topic in ("t", "u"):
            session.update(topic, TOPIC_ID, FetchPartition(0))
    assert (len(by_name), len(by_id)) == (2, 1)
    by_name.forget("u", b"", 0)
    by_id.forget("nobody looks at it", TOPIC_ID, 0)
    assert (len(by_name), len(by_id)) == (1, 0)
    assert (by_name.weight_bytes, by_id.weight_bytes) == (PARTITION_BYTES + 1, 0)


def test_behind_the_last_epoch_comes_the_first() -> None:
    session = FetchSession(by_id=False)
    session.step()
    assert session.epoch == 2
    session.epoch = EPOCH_MAX
    session.step()
    assert session.epoch == 1


def test_a_session_is_closed_in_turns_and_nothing_rests_any_more() -> None:
    count = 2 * TURN_PARTITIONS + 1
    served = Served(count)
    for index in range(count):
        served.update(index, 0)
    due = served.session.due()
    served.fetch()
    turns = served.session.close()
    next(turns)
    assert served.session.is_closed
    served.logs[count - 1].move(end=1)
    served.session.rest(due[count - 1], served.logs[count - 1])
    assert len(list(turns)) == 1
    assert not any(log.watchers for log in served.logs)
    assert len(served.session) == served.session.due_count == 0
