"""The log after a start: each gap is a refused batch, the table's, or a loss."""

from types import SimpleNamespace

import numpy as np
import pytest

from broker.log.lost import Lost
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.producers import Duplicate
from broker.log.restoring import restore_log
from broker.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.batches import (
    NOW,
    admitted,
    columns_of,
    committed,
    four_batches,
    without,
)
from tests.broker.log.headers import header


def test_a_log_is_restored_from_checkpoint_and_segments() -> None:
    log = PartitionLog()
    committed(log, admitted(log, 3, producer=1), 3)
    snapshot = log.snapshot()
    committed(log, admitted(log, 2, producer=1, sequence=3), 2)
    again = restore_log(snapshot, start=1, columns=columns_of(log))
    again.replay(header(2, base=3, producer=1, sequence=3), NOW)
    assert (again.start, again.durable, again.next) == (1, 5, 5)
    assert list(again.index) == list(log.index)
    assert again.admit(header(3, producer=1), NOW) == Duplicate(0, 2, 1_000)
    assert again.admit(header(2, producer=1, sequence=3), NOW) == Duplicate(3, 4, 1_000)
    assert again.admit(header(producer=1, sequence=5), NOW) == 5


def test_producers_outlive_the_segments() -> None:
    log = PartitionLog()
    committed(log, admitted(log, 3, producer=1), 3)
    again = restore_log(log.snapshot(), table_end=3)
    assert (again.durable, len(again.index)) == (3, 0)
    assert again.admit(header(3, producer=1), NOW) == Duplicate(0, 2, 1_000)


@pytest.mark.parametrize(
    ("durable", "table_end", "start", "end"), [(9, 4, 0, 9), (4, 9, 0, 9), (0, 0, 9, 9)]
)
def test_the_durable_end_never_falls_back(
    durable: int, table_end: int, start: int, end: int
) -> None:
    snapshot = LogSnapshot(durable, PartitionLog().producers.snapshot())
    log = restore_log(snapshot, start=start, table_end=table_end)
    assert (log.durable, log.next) == (end, end)


def test_a_batch_in_flight_at_the_checkpoint_counts_if_it_is_replayed() -> None:
    log = PartitionLog()
    admitted(log, producer=1)
    admitted(log, producer=2)
    snapshot = log.snapshot()
    log.abandon(0, 0)
    committed(log, 1)
    again = restore_log(snapshot, columns=columns_of(log))
    again.replay(header(base=1, producer=2), NOW)
    assert again.admit(header(producer=2), NOW) == Duplicate(1, 1, 1_000)
    assert again.admit(header(producer=1), NOW) == 2


def test_a_refused_batch_is_no_duplicate_of_what_took_its_offset() -> None:
    log = PartitionLog()
    admitted(log, producer=1)
    snapshot = log.snapshot()
    log.abandon(0, 0)
    committed(log, admitted(log, producer=2))
    again = restore_log(snapshot, columns=columns_of(log))
    again.replay(header(base=0, producer=2), NOW)
    assert again.admit(header(producer=1), NOW) == 1


def test_a_batch_that_was_deleted_before_the_next_checkpoint_is_known() -> None:
    log = PartitionLog()
    admitted(log, producer=1)
    snapshot = log.snapshot()
    committed(log, 0)
    again = restore_log(snapshot, start=1, columns=columns_of(log))
    again.replay(header(base=0, producer=1), NOW)
    assert again.admit(header(producer=1), NOW) == Duplicate(0, 0, 1_000)
    assert again.admit(header(producer=1, sequence=1), NOW) == 1


def test_what_an_older_version_kept_of_batches_in_flight_counts_if_it_is_there() -> (
    None
):
    log = PartitionLog()
    first = admitted(log, producer=1)
    second = admitted(log, producer=2)
    snapshot = LogSnapshot(log.durable, log.producers.snapshot(), holes=None)
    log.abandon(first, first)
    committed(log, second)
    again = restore_log(snapshot, columns=columns_of(log))
    assert again.admit(header(producer=2), NOW) == Duplicate(1, 1, 1_000)
    assert again.admit(header(producer=1), NOW) == 2


def test_a_hole_is_known_from_records_that_are_somewhere_else() -> None:
    """The second and the fifth batch were refused; the third one's segment is gone."""
    log = PartitionLog()
    for at in range(6):
        base = admitted(log, 10, producer=at)
        if at not in (1, 4):
            committed(log, base, 10)
        elif at == 1:
            snapshot = log.snapshot()
    assert log.holes == [(10, 20), (40, 50)]
    assert (log.hole_end(10), log.hole_end(19), log.hole_end(20)) == (20, 20, None)
    columns = columns_of(log)
    for name, column in vars(columns).items():
        setattr(columns, name, np.delete(column, 1))
    snapshot = LogSnapshot(40, snapshot.producers, ((10, 20),))
    again = restore_log(snapshot, table_end=0, columns=columns)
    assert [again.is_in_segments(at) for at in (9, 10, 29, 30)] == [1, 0, 0, 1]
    assert again.hole_end(40) == 50
    assert again.hole_end(10) == 20
    assert again.hole_end(20) is None


def test_what_is_behind_the_segments_that_are_left_is_the_tables() -> None:
    """A newer segment was let go before an older one, which others still need."""
    log = PartitionLog()
    for _ in range(3):
        committed(log, admitted(log, 10), 10)
    columns = columns_of(log)
    for name, column in vars(columns).items():
        setattr(columns, name, column[:1])
    again = restore_log(log.snapshot(), table_end=30, columns=columns)
    assert again.durable == 30
    assert not again.is_in_segments(10)
    committed(again, admitted(again, 10), 10)
    assert not again.is_in_segments(10)
    assert again.is_in_segments(30)


def test_of_an_older_checkpoint_every_gap_is_taken_for_a_hole() -> None:
    log = PartitionLog()
    committed(log, admitted(log, 10), 10)
    admitted(log, 10, producer=1)
    committed(log, admitted(log, 10), 10)
    older = LogSnapshot(30, log.snapshot().producers, None)
    again = restore_log(older, table_end=0, columns=columns_of(log))
    assert (again.index.first_offset, again.hole_end(10)) == (0, 20)
    columns = columns_of(log)
    for name, column in vars(columns).items():
        setattr(columns, name, column[1:])
    again = restore_log(older, table_end=10, columns=columns)
    assert again.hole_end(10) == 20
    lost = restore_log(older, table_end=0, columns=columns)
    assert lost.hole_end(0) is None


def test_what_is_left_to_a_table_was_in_segments_from_the_first_batch_on() -> None:
    """Also where one was refused between two: the table goes on behind it."""
    again = restore_log(None, table_end=40, columns=without(four_batches(), 1))
    assert (again.left_from, len(again.index)) == (0, 0)


MISSING, DAMAGED = (2 << 32, 3 << 32, False), (2 << 32 | 48, 2 << 32 | 90, True)


@pytest.mark.parametrize("place", [MISSING, DAMAGED])
@pytest.mark.parametrize("kept", [0, 10, 40])
def test_what_lies_around_a_lost_segment_is_served_and_it_is_no_refusal(
    kept: int, place: tuple[int, int, bool]
) -> None:
    log = four_batches()
    snapshot = LogSnapshot(kept, log.snapshot().producers)
    again = restore_log(snapshot, columns=without(log, 1), places=[place])
    assert (again.durable, again.index.first_offset) == (40, 0)
    served = [again.is_in_segments(offset) for offset in (0, 9, 10, 19, 20, 39, 40)]
    assert served == [True, True, False, False, True, True, False]
    assert again.lost == [Lost(10, 20, place is DAMAGED)]
    assert (again.hole_end(10), again.holes) == (None, [])
    found = [again.next_lost(offset) for offset in (0, 19, 20)]
    assert found == [again.lost[0], again.lost[0], None]


@pytest.mark.parametrize(
    ("kept", "replayed_from", "lost", "holes"),
    [
        (10, 3 << 32, [], [(10, 20)]),
        (10, 2 << 32, [Lost(10, 20)], []),
        (15, 3 << 32, [Lost(10, 15)], [(15, 20)]),
        (20, 3 << 32, [Lost(10, 20)], []),
    ],
)
def test_a_place_before_the_checkpoints_held_nothing_that_came_behind_it(
    kept: int, replayed_from: int, lost: list[Lost], holes: list[tuple[int, int]]
) -> None:
    log = four_batches()
    snapshot = LogSnapshot(kept, log.snapshot().producers)
    again = restore_log(
        snapshot,
        columns=without(log, 1),
        places=[MISSING],
        replayed_from=replayed_from,
    )
    assert (again.lost, again.holes) == (lost, holes)


def test_a_loss_that_a_later_start_finds_is_none_of_the_refusals_that_it_knows() -> (
    None
):
    """Nothing says any more that a file is missing: the checkpoint knows of no hole."""
    log = four_batches()
    again = restore_log(log.snapshot(), columns=without(log, 1))
    assert again.lost == [Lost(10, 20)]
    again.release(3)
    assert again.lost == []
    again = restore_log(log.snapshot(), columns=without(log, 1))
    again.move_start(19)
    assert again.lost == [Lost(10, 20)]
    again.move_start(20)
    assert again.lost == []


@pytest.mark.parametrize(
    ("table_end", "lost"), [(15, [Lost(15, 20)]), (20, []), (25, [])]
)
def test_what_the_table_has_of_a_lost_segment_is_the_tables(
    table_end: int, lost: list[Lost]
) -> None:
    log = four_batches()
    again = restore_log(
        log.snapshot(), table_end=table_end, columns=without(log, 1), places=[MISSING]
    )
    assert again.index.first_offset == 20
    assert (again.lost, again.holes) == (lost, [])


def test_behind_a_checkpoint_nothing_of_a_producer_is_forgotten() -> None:
    """Also where all of it was deleted meanwhile: a batch that overtook another, which
    was refused, does not come first."""
    before = PartitionLog()
    snapshot = before.snapshot()
    assert before.admit(header(producer=1), NOW) == 0
    before.commit(0, 0, NOW, 1, 10)
    log = restore_log(snapshot, start=1, columns=columns_of(before))
    log.replay(header(producer=1), NOW)
    with pytest.raises(KafkaError) as caught:
        log.admit(header(producer=1, sequence=2), NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.admit(header(producer=1, sequence=1), NOW) == 1


def test_without_a_checkpoint_who_wrote_what_was_released_goes_on_as_he_did() -> None:
    """Of producer 1 a later batch is in the table alone, of producer 2 none is."""
    columns = SimpleNamespace(
        base=np.array([0, 3]), last=np.array([0, 3]), max_ts=np.zeros(2, np.int64),
        location=np.array([1, 5]), length=np.ones(2, np.int64),
    )  # fmt: skip
    places = [(2, 4, False)]
    log = restore_log(None, table_end=4, columns=columns, places=places)
    for producer, base in ((1, 0), (2, 3)):
        log.replay(header(producer=producer, base=base), NOW)
    for again in (log, restore_log(log.snapshot())):
        assert isinstance(again.admit(header(producer=1), NOW), Duplicate)
        with pytest.raises(KafkaError) as raised:
            again.admit(header(producer=2, sequence=3), NOW)
        assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert again.admit(header(producer=1, sequence=3), NOW) == 4
        with pytest.raises(KafkaError):
            again.admit(header(producer=1, sequence=5), NOW)
        again.abandon(4, 4, 1)
        assert again.admit(header(producer=1, sequence=0, epoch=1), NOW) == 4


@pytest.mark.parametrize(("released_end", "holes"), [(8, []), (7, [(7, 8)])])
def test_what_was_left_where_others_were_carried_is_no_refused_batch(
    released_end: int, holes: list[tuple[int, int]]
) -> None:
    """A copy has nothing of what a table had, and no number tells what it replaced. So
    where the log starts amid that, the note of what was released does."""
    columns = SimpleNamespace(
        base=np.array([3, 8]), last=np.array([5, 8]), max_ts=np.zeros(2, np.int64),
        location=np.array([6 << 32, 9 << 32]), length=np.ones(2, np.int64),
    )  # fmt: skip
    log = restore_log(
        None, start=7, table_end=released_end, columns=columns,
        released_end=released_end,
    )  # fmt: skip
    assert log.holes == holes


def test_without_a_checkpoint_what_the_table_has_is_no_refused_batch() -> None:
    """A segment that was released is found again, the next one was written anew."""
    log = four_batches()
    again = restore_log(None, table_end=25, columns=without(log, 1))
    assert not again.is_in_segments(10)
    assert (again.index.first_offset, again.holes) == (20, [])
    again = restore_log(None, table_end=15, columns=without(log, 1))
    assert not again.is_in_segments(14)
    assert (again.hole_end(14), again.hole_end(15)) == (None, 20)


@pytest.mark.parametrize(
    ("table_end", "first", "lost"), [(20, 30, []), (15, 30, [Lost(15, 20)])]
)
def test_what_was_refused_behind_a_released_segment_is_a_hole_after_a_crash(
    table_end: int, first: int, lost: list[Lost]
) -> None:
    """The checkpoint was between the two."""
    log = four_batches()
    snapshot = LogSnapshot(20, log.snapshot().producers)
    again = restore_log(snapshot, table_end=table_end, columns=without(log, 1, 2))
    assert again.index.first_offset == first
    assert (again.holes, again.lost) == ([(20, 30)], lost)


def test_a_refused_batch_that_the_table_covers_in_part_is_one_still() -> None:
    log = four_batches()
    snapshot = LogSnapshot(40, log.snapshot().producers, ((10, 20),))
    again = restore_log(snapshot, table_end=15, columns=without(log, 1))
    assert (again.hole_end(15), again.lost) == (20, [])


def test_a_batch_that_was_refused_first_of_all_is_a_hole_after_a_crash() -> None:
    """No batch lies before it, and the checkpoint was before it came."""
    log = PartitionLog()
    refused, base = admitted(log, 10, producer=1), admitted(log, 10)
    log.abandon(refused, refused + 9, producer_id=1)
    log.commit(base, base + 9, 1_000, location=1 << 32, length=100)
    for start, hole in ((0, (0, 10)), (4, (4, 10)), (10, None)):
        again = restore_log(
            PartitionLog().snapshot(), start=start, columns=columns_of(log)
        )
        assert again.holes == ([] if hole is None else [hole])
    lost = restore_log(
        PartitionLog().snapshot(), columns=columns_of(log), places=[(7, 8, False)]
    )
    assert lost.holes == []
    for replayed_from, holes in ((7, []), (8, [(0, 10)])):  # it was older than that
        older = restore_log(
            PartitionLog().snapshot(),
            columns=columns_of(log),
            places=[(7, 8, True)],
            replayed_from=replayed_from,
        )
        assert older.holes == holes
    unknown = restore_log(None, columns=columns_of(log))
    assert unknown.holes == []


@pytest.mark.parametrize(
    ("start", "holes"),
    [(0, [(0, 10)]), (4, [(4, 10)]), (10, []), (15, []), (20, []), (25, [(25, 30)])],
)
def test_where_nothing_was_released_it_was_refused_without_a_checkpoint_too(
    start: int, holes: list[tuple[int, int]]
) -> None:
    """The batches at 10 and 30 were kept; what was deleted makes nothing the first."""
    log = PartitionLog()
    for producer in range(4):
        admitted(log, 10, producer=producer)
    for number, base in enumerate((10, 30)):
        log.commit(base, base + 9, 1_000, location=number + 3 << 32, length=100)
    again = restore_log(None, start=start, columns=columns_of(log), has_all=True)
    behind = [(max(start, 20), 30)] if start <= 20 else []
    assert sorted(again.holes) == sorted({*holes, *behind})
    for place in (MISSING, DAMAGED):  # in front of both
        sure = restore_log(
            None, start=start, columns=columns_of(log), places=[place], has_all=True
        )
        assert (0, 10) not in sure.holes
    unsure = restore_log(
        None, columns=columns_of(log), places=[(1, 2, False)], has_all=True
    )
    assert unsure.holes == [(20, 30)]
    empty = restore_log(None, start=start, has_all=True)
    assert (empty.holes, empty.durable) == ([], start)


def test_a_single_batch_behind_a_single_refused_record_shows_it() -> None:
    log = PartitionLog()
    for producer in range(2):
        admitted(log, 1, producer=producer)
    log.commit(1, 1, 1_000, location=1 << 32, length=100)
    again = restore_log(None, columns=columns_of(log), has_all=True)
    assert again.holes == [(0, 1)]


@pytest.mark.parametrize("place", [(), ((9 << 32, 10 << 32, True),)])
def test_a_loss_at_the_end_stays_one_when_the_log_goes_on(
    place: tuple[tuple[int, int, bool], ...],
) -> None:
    log = four_batches()
    snapshot = log.snapshot()
    again = restore_log(snapshot, columns=without(log, 2, 3), places=place)
    assert again.lost == [Lost(20, 40, bool(place))]
    base = admitted(again, 10)
    again.commit(base, base + 9, 1_000, location=12 << 32, length=100)
    assert base == 40
    assert [again.is_in_segments(at) for at in (19, 20, 39, 40)] == [1, 0, 0, 1]
    for table_end, lost in ((30, []), (40, []), (15, [Lost(20, 40)])):
        again = restore_log(snapshot, table_end=table_end, columns=without(log, 2, 3))
        assert again.lost == lost


def test_what_was_refused_at_the_end_is_no_loss() -> None:
    log = four_batches()
    snapshot = log.snapshot()._replace(holes=((20, 40),))
    again = restore_log(snapshot, columns=without(log, 2, 3))
    assert (again.lost, again.hole_end(25)) == ([], 40)


def test_what_was_open_at_the_checkpoint_is_open_and_holds_back_what_is_stable() -> (
    None
):
    log = PartitionLog()
    committed(log, admitted(log))
    one = header(producer=1, transactional=True)
    base = log.admit(one, NOW)
    assert base == 1
    log.commit_transactional(base, one, 2, 10)
    again = restore_log(log.snapshot(), columns=columns_of(log))
    assert (again.stable, again.durable, again.open_since(1)) == (1, 2, (1, 0))
