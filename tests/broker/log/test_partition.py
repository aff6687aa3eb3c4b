"""A partition's log: offsets are given away, made visible, or taken back."""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.partition import Admitted, LogSnapshot, PartitionLog
from broker.log.producers import Duplicate
from broker.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.headers import header

NOW = 1_700_000_000_000


def admitted(log: PartitionLog, count: int = 1, **fields: int) -> int:
    answer = log.admit(header(count, **fields), NOW)
    assert isinstance(answer, Admitted)
    return answer.base_offset


def settled(log: PartitionLog, base: int, count: int = 1) -> None:
    log.settle(base, base + count - 1, 1_000, location=base + 1, length=100)


def test_offsets_are_given_away_at_once_and_visible_when_durable() -> None:
    log = PartitionLog()
    assert [admitted(log, 3), admitted(log, 2)] == [0, 3]
    assert (log.durable, log.next, len(log.index)) == (0, 5, 0)
    settled(log, 0, 3)
    assert (log.stable, log.durable, log.next) == (3, 3, 5)
    settled(log, 3, 2)
    assert (log.durable, log.index.end_offset) == (5, 5)


def test_a_duplicate_changes_nothing() -> None:
    log = PartitionLog()
    admitted(log, 3, producer=1)
    again = log.admit(header(3, producer=1), NOW)
    assert again == Duplicate(0, 2, 1_000)
    assert log.next == 3


def test_a_refused_sequence_changes_nothing() -> None:
    log = PartitionLog()
    admitted(log, 3, producer=1)
    with pytest.raises(KafkaError) as caught:
        log.admit(header(producer=1, sequence=9), NOW)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.next == 3
    assert admitted(log, producer=1, sequence=3) == 3


def test_producers_without_idempotence_leave_no_trace() -> None:
    log = PartitionLog()
    admitted(log)
    admitted(log)
    assert len(log.producers) == 0


def test_an_abandoned_batch_at_the_end_never_was() -> None:
    log = PartitionLog()
    settled(log, admitted(log))
    base = admitted(log, 5, producer=1)
    log.abandon(base, base + 4)
    assert (log.durable, log.next) == (1, 1)
    assert admitted(log, 5, producer=1) == 1


def test_an_abandoned_batch_under_others_leaves_a_hole() -> None:
    log = PartitionLog()
    admitted(log, 5, producer=1)
    later = admitted(log, 2)
    log.abandon(0, 4, producer_id=1)
    assert (log.durable, log.next) == (0, 7)
    settled(log, later, 2)
    assert log.durable == 7
    assert log.index.find(0) == 0
    assert log.index[0].base == 5


def test_a_failed_write_takes_back_all_that_waited() -> None:
    log = PartitionLog()
    settled(log, admitted(log, producer=1))
    bases = [admitted(log, producer=1, sequence=at) for at in (1, 2, 3)]
    for base in bases:
        log.abandon(base, base)
    assert (log.durable, log.next) == (1, 1)
    assert admitted(log, producer=1, sequence=1) == 1


def test_settling_out_of_order_is_our_own_mistake() -> None:
    log = PartitionLog()
    admitted(log)
    admitted(log)
    settled(log, 1)
    with pytest.raises(AssertionError):
        settled(log, 0)


def test_the_start_moves_forward_only() -> None:
    log = PartitionLog()
    for _ in range(5):
        settled(log, admitted(log))
    assert log.move_start(3)
    assert not log.move_start(2)
    assert (log.start, log.index.first_offset) == (3, 3)
    with pytest.raises(AssertionError):
        log.move_start(6)


def columns_of(log: PartitionLog) -> SimpleNamespace:
    entries = [np.array(column) for column in zip(*log.index, strict=True)]
    names = ("base", "last", "max_ts", "location", "length")
    return SimpleNamespace(**dict(zip(names, entries, strict=False)))


def test_a_log_is_restored_from_checkpoint_and_segments() -> None:
    log = PartitionLog()
    settled(log, admitted(log, 3, producer=1), 3)
    snapshot = log.snapshot()
    settled(log, admitted(log, 2, producer=1, sequence=3), 2)
    again = PartitionLog.restore(snapshot, start=1, columns=columns_of(log))
    again.replay(header(2, base=3, producer=1, sequence=3), NOW)
    assert (again.start, again.durable, again.next) == (1, 5, 5)
    assert list(again.index) == list(log.index)
    assert again.admit(header(3, producer=1), NOW) == Duplicate(0, 2, 1_000)
    assert again.admit(header(2, producer=1, sequence=3), NOW) == Duplicate(3, 4, 1_000)
    assert again.admit(header(producer=1, sequence=5), NOW) == Admitted(5)


def test_producers_outlive_the_segments() -> None:
    log = PartitionLog()
    settled(log, admitted(log, 3, producer=1), 3)
    again = PartitionLog.restore(log.snapshot(), table_end=3)
    assert (again.durable, len(again.index)) == (3, 0)
    assert again.admit(header(3, producer=1), NOW) == Duplicate(0, 2, 1_000)


@pytest.mark.parametrize(
    ("durable", "table_end", "start", "end"), [(9, 4, 0, 9), (4, 9, 0, 9), (0, 0, 9, 9)]
)
def test_the_durable_end_never_falls_back(
    durable: int, table_end: int, start: int, end: int
) -> None:
    snapshot = LogSnapshot(durable, PartitionLog().producers.snapshot())
    log = PartitionLog.restore(snapshot, start=start, table_end=table_end)
    assert (log.durable, log.next) == (end, end)


def test_a_batch_in_flight_at_the_checkpoint_counts_if_it_was_written() -> None:
    log = PartitionLog()
    first = admitted(log, producer=1)
    second = admitted(log, producer=2)
    snapshot = log.snapshot()
    log.abandon(first, first)
    settled(log, second)
    again = PartitionLog.restore(snapshot, columns=columns_of(log))
    assert again.admit(header(producer=2), NOW) == Duplicate(1, 1, 1_000)
    assert again.admit(header(producer=1), NOW) == Admitted(2)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("asr"), st.integers(1, 4)), max_size=60))
def test_what_is_visible_is_what_was_settled(steps: list[tuple[str, int]]) -> None:
    """Admit, settle and refuse against a queue and a list."""
    log = PartitionLog()
    waiting: deque[tuple[int, int]] = deque()
    visible: list[tuple[int, int]] = []
    for at, (verb, count) in enumerate(steps):
        if verb == "a":
            base = admitted(log, count)
            assert not waiting or base == waiting[-1][1] + 1
            waiting.append((base, base + count - 1))
        elif waiting:
            base, last = waiting.popleft()
            if verb == "s":
                log.settle(base, last, 0, location=at, length=1)
                visible.append((base, last))
            else:
                log.abandon(base, last)
        assert [(e.base, e.last) for e in log.index] == visible
        assert log.durable == (visible[-1][1] + 1 if visible else 0)
        assert waiting or log.next == log.durable
