"""A table moves when its end is seen further on, and rests a while after that."""

from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.runtime.process.table_progress import PATIENCE, TableProgress
from tests.support.clock import ManualClock

TOPIC, OTHER = TopicNumber(1), TopicNumber(2)


def key(index: int, number: TopicNumber = TOPIC) -> TopicPartition:
    return number, PartitionNumber(index)


def test_a_table_rests_until_its_end_is_seen_to_move() -> None:
    clock = ManualClock()
    progress = TableProgress(clock)
    for end in (7, 7):
        progress.look(key(0), end, waits=True)
        assert progress.rests(key(0), 100)
    progress.look(key(0), 8, waits=True)
    assert not progress.rests(key(0), 100)
    assert progress.rests(key(0, OTHER), 100)
    clock.advance(99)
    assert not progress.rests(key(0), 100)
    clock.advance(1)
    assert progress.rests(key(0), 100)


def test_what_moved_in_one_partition_counts_for_the_topic() -> None:
    progress = TableProgress(ManualClock())
    for index, end in ((0, 0), (1, 5), (1, 6), (0, 0)):
        progress.look(key(index), end, waits=True)
    assert not progress.rests(key(0), 100)


def test_what_waits_for_nothing_is_not_kept() -> None:
    progress = TableProgress(ManualClock())
    progress.look(key(0), 5, waits=True)
    progress.look(key(0), 6, waits=False)
    assert not progress.rests(key(0), 100)
    assert progress._ends == {}
    progress = TableProgress(ManualClock())
    progress.look(key(0), 5, waits=False)
    progress.look(key(0), 9, waits=True)
    assert progress.rests(key(0), 100)


def test_what_is_gone_is_forgotten() -> None:
    progress = TableProgress(ManualClock())
    for number in (TOPIC, OTHER):
        for end in (5, 6):
            progress.look(key(0, number), end, waits=True)
    progress.keep(lambda number: number == OTHER)
    assert list(progress._ends) == [key(0, OTHER)]
    assert progress.rests(key(0), 100)
    assert not progress.rests(key(0, OTHER), 100)


def test_what_is_gone_is_forgotten_also_when_it_waits_for_nothing_any_more() -> None:
    progress = TableProgress(ManualClock())
    for number in (TOPIC, OTHER):
        progress.look(key(0, number), 5, waits=True)
        progress.look(key(0, number), 6, waits=False)
    progress.keep(lambda number: number == OTHER)
    assert progress.rests(key(0), 100)
    assert not progress.rests(key(0, OTHER), 100)


def test_the_first_end_that_is_seen_says_nothing() -> None:
    progress = TableProgress(ManualClock())
    said = [progress.look(key(0), 5, waits=True) for _ in range(2)]
    assert said == [False, True]


def test_a_partition_that_stands_still_is_not_waited_for_for_ever() -> None:
    clock = ManualClock()
    progress = TableProgress(clock)
    for end in range(PATIENCE + 1):
        progress.look(key(0), 7, waits=True)
        progress.look(key(1), end, waits=True)
        assert progress.rests(key(0), 100) == (end in (0, PATIENCE))
        assert not progress.rests(key(1), 100) or not end
        clock.advance(100)
