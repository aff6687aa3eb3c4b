"""A partition's log: offsets are given away, made visible, or taken back."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.partition import HELD_HOLES_MAX, PartitionLog
from broker.log.producers import Duplicate
from broker.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.batches import NOW, admitted, committed
from tests.broker.log.headers import header


def test_offsets_are_given_away_at_once_and_visible_when_durable() -> None:
    log = PartitionLog()
    assert [admitted(log, 3), admitted(log, 2)] == [0, 3]
    assert (log.durable, log.next, len(log.index)) == (0, 5, 0)
    committed(log, 0, 3)
    assert (log.stable, log.durable, log.next) == (3, 3, 5)
    committed(log, 3, 2)
    assert (log.durable, log.index.end_offset) == (5, 5)


@pytest.mark.parametrize("producer", [0, 1])
def test_a_duplicate_changes_nothing(producer: int) -> None:
    log = PartitionLog()
    admitted(log, 3, producer=producer)
    again = log.admit(header(3, producer=producer), NOW)
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
    committed(log, admitted(log))
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
    committed(log, later, 2)
    assert log.durable == 7
    assert log.index.find(0) == 0
    assert log.index[0].base == 5


def test_a_failed_write_takes_back_all_that_waited() -> None:
    log = PartitionLog()
    committed(log, admitted(log, producer=1))
    bases = [admitted(log, producer=1, sequence=at) for at in (1, 2, 3)]
    for base in bases:
        log.abandon(base, base)
    assert (log.durable, log.next) == (1, 1)
    assert admitted(log, producer=1, sequence=1) == 1


def test_settling_out_of_order_is_our_own_mistake() -> None:
    log = PartitionLog()
    admitted(log)
    admitted(log)
    committed(log, 1)
    with pytest.raises(AssertionError):
        committed(log, 0)


def test_the_start_moves_forward_only() -> None:
    log = PartitionLog()
    for _ in range(5):
        committed(log, admitted(log))
    assert log.move_start(3)
    assert not log.move_start(2)
    assert (log.start, log.index.first_offset) == (3, 3)
    with pytest.raises(AssertionError):
        log.move_start(6)


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
                log.commit(base, last, 0, location=at, length=1)
                visible.append((base, last))
            else:
                log.abandon(base, last)
        assert [(e.base, e.last) for e in log.index] == visible
        assert log.durable == (visible[-1][1] + 1 if visible else 0)
        assert waiting or log.next == log.durable


def test_only_the_hole_that_may_lie_beyond_the_table_is_kept() -> None:
    log = PartitionLog()
    for at in range(6):
        base = admitted(log, 10, producer=at)
        if at % 2 == 0:
            log.commit(base, base + 9, 1_000, location=at + 1 << 32, length=100)
    assert log.holes == [(10, 20), (30, 40)]
    log.release(3)
    assert log.index.first_offset == 40
    assert log.holes == [(30, 40)]


def every_other_refused(count: int, segment: int) -> PartitionLog:
    """So many batches in one segment, with one that was refused behind each; and a last
    one in the next segment."""
    log = PartitionLog()
    for at in range(count):
        base = admitted(log)
        log.commit(base, base, 1_000, location=(segment << 32) + at + 1, length=100)
        admitted(log, producer=at)
    base = admitted(log)
    log.commit(base, base, 1_000, location=(segment + 2) << 32, length=100)
    return log


@pytest.mark.parametrize(
    ("held", "holes"),
    [
        (None, [(5, 6)]),
        (0, [(1, 2), (3, 4), (5, 6)]),
        (2, [(1, 2), (3, 4), (5, 6)]),
        (3, [(3, 4), (5, 6)]),
        (9, [(5, 6)]),
    ],
)
def test_what_was_refused_amid_what_others_hold_is_known_as_long_as_they_do(
    held: int | None, holes: list[tuple[int, int]]
) -> None:
    log = every_other_refused(3, 2)
    log.release(4, held)
    assert log.first_in_segments == log.durable == 7
    assert log.holes == holes
    assert log.outlasts_release
    log.release(4, 7)
    assert log.holes == [(5, 6)]


def test_of_what_was_refused_and_released_only_so_much_is_known() -> None:
    log = every_other_refused(HELD_HOLES_MAX + 5, 2)
    assert len(log.holes) == HELD_HOLES_MAX + 5
    log.release(4, 0)
    assert len(log.holes) == HELD_HOLES_MAX + 1
    newest = log.durable - 2, log.durable - 1
    assert (log.holes[0], log.holes[-1]) == ((9, 10), newest)


def test_carried_batches_leave_their_holes_as_a_release_does() -> None:
    log = PartitionLog()
    for at in range(6):
        base = admitted(log, 10, producer=at)
        if at % 2 == 0:
            log.commit(base, base + 9, 1_000, location=at + 2 << 32, length=100)
    assert log.holes == [(10, 20), (30, 40)]
    log.move([4 << 32, 6 << 32], [7 << 32, 7 << 32 | 148], [4, 6])
    assert [entry.location for entry in log.index] == [2 << 32, 7 << 32, 7 << 32 | 148]
    assert log.holes == [(10, 20), (30, 40)]
    log.move([7 << 32 | 148], [9 << 32], [2, 7, 8])
    assert log.index.first_offset == 40
    assert log.holes == [(30, 40)]
