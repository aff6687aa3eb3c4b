"""A partition's log with transactions in it: what is stable, aborted and refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from broker.log.lost import Lost
from broker.log.partition import LogSnapshot, PartitionLog
from broker.log.producers import Duplicate
from broker.log.restoring import restore_log
from broker.log.undecided import Undecided
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import BatchHeader
from broker.records.markers import Marker
from tests.broker.log.headers import header, marker_header

NOW = 1_000


class Written:
    """A log whose batches are durable at once."""

    def __init__(self, log: PartitionLog | None = None) -> None:
        self.log = log or PartitionLog()
        self.locations = iter(range(len(self.log.index) + 1, 100))

    def record(self, producer: int, sequence: int = 0, epoch: int = 0) -> int:
        one = header(
            producer=producer, sequence=sequence, epoch=epoch, transactional=True
        )
        base = self.log.admit(one, NOW)
        assert isinstance(base, int)
        self.log.commit_transactional(base, one, next(self.locations), 10)
        return base

    def marker(self, producer: int, commit: bool, epoch: int = 0) -> int:
        base = self.log.admit_marker(producer, epoch)
        one, marker = marker_header(producer, epoch), Marker(commit)
        self.log.commit_transactional(base, one, next(self.locations), 10, marker)
        return base

    def plain(self) -> int:
        base = self.log.admit(header(), NOW)
        assert isinstance(base, int)
        self.log.commit(base, base, NOW, next(self.locations), 10)
        return base


def test_what_is_stable_ends_at_the_oldest_open_transaction() -> None:
    written = Written()
    log = written.log
    written.plain()
    written.record(1)
    written.record(2)
    written.plain()
    assert (log.stable, log.durable) == (1, 4)
    written.marker(1, commit=True)
    assert (log.stable, log.durable) == (2, 5)
    written.marker(2, commit=False)
    assert (log.stable, log.durable) == (6, 6)
    assert log.aborted(0, 6) == [(2, 2)]


def test_a_transaction_opens_and_ends_when_it_is_durable() -> None:
    log = PartitionLog()
    one = header(producer=1, transactional=True)
    log.admit(one, NOW)
    log.admit_marker(1, 0)
    assert (log.stable, log.durable) == (0, 0)
    log.commit_transactional(0, one, 1, 10)
    assert (log.stable, log.durable) == (0, 1)
    log.commit_transactional(1, marker_header(1), 2, 10, Marker(True))
    assert (log.stable, log.durable) == (2, 2)


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    written = Written()
    written.record(1)
    with pytest.raises(KafkaError) as caught:
        written.log.admit(header(producer=1, sequence=1), NOW)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert written.log.next == 1
    written.marker(1, commit=True)
    assert written.log.admit(header(producer=1, sequence=1), NOW) == 2


def test_a_retry_inside_a_transaction_is_a_duplicate() -> None:
    written = Written()
    written.record(1)
    again = written.log.admit(header(producer=1, transactional=True), NOW)
    assert again == Duplicate(0, 0, 1_000)
    assert written.log.transactions.open == {1: 0}


def refused(log: PartitionLog, **batch: int) -> bool:
    """Whether a batch is of an ended transaction; else it was admitted before."""
    try:
        found = log.admit(header(transactional=True, **batch), NOW)
    except KafkaError as error:
        return error.code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert isinstance(found, Duplicate)
    return False


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("starts_anew", [True, False])
def test_what_comes_with_sequences_of_an_ended_transaction_is_no_duplicate(
    commit: bool, starts_anew: bool
) -> None:
    """librdkafka aborts before it has its answers, and counts on from what it has."""
    written = Written()
    written.record(1)
    written.record(1, sequence=1)
    written.marker(1, commit)
    if starts_anew:
        log = written.log
        written = Written(restore_log(log.snapshot(), columns=columns_of(log)))
    assert refused(written.log, producer=1, sequence=1)
    assert not written.log.transactions.admitted
    assert written.record(1, sequence=2) == 3
    assert refused(written.log, producer=1, sequence=1), "though the next one is open"
    assert not refused(written.log, producer=1, sequence=2)


@pytest.mark.parametrize(("sequence", "count"), [(3, 1), (3, 9), (4, 2), (5, 7)])
def test_sequences_of_an_ended_transaction_are_known_however_batches_are_cut(
    sequence: int, count: int
) -> None:
    log = PartitionLog()
    log.admit(header(3, producer=1, transactional=True), NOW)
    log.admit(header(3, producer=1, sequence=3, transactional=True), NOW)
    again = header(count, producer=1, sequence=sequence, transactional=True)

    def code(batch: BatchHeader) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            log.admit(batch, NOW)
        return caught.value.code

    assert code(again) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.admit_marker(1, 0)
    assert code(again) is ErrorCode.UNKNOWN_PRODUCER_ID
    later = header(producer=1, sequence=8, transactional=True)
    assert code(later) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    plain = again._replace(attributes=0)
    assert code(plain) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.admit(header(producer=1, sequence=6, transactional=True), NOW) == 7
    assert code(again) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_marker_on_its_way_ends_what_is_a_duplicate() -> None:
    log = PartitionLog()
    log.admit(header(producer=1, transactional=True), NOW)
    assert not refused(log, producer=1)
    log.admit_marker(1, 0)
    assert refused(log, producer=1)
    log.admit(header(producer=1, sequence=1, transactional=True), NOW)
    assert refused(log, producer=1)
    assert not refused(log, producer=1, sequence=1)


def test_without_transactions_a_retry_is_a_duplicate_behind_anything() -> None:
    log = PartitionLog()
    log.admit(header(producer=1), NOW)
    log.admit_marker(1, 0)
    assert log.admit(header(producer=1), NOW) == Duplicate(0, 0, 1_000)


def test_a_refused_batch_never_opened_a_transaction() -> None:
    log = PartitionLog()
    log.admit(header(producer=1, transactional=True), NOW)
    log.abandon(0, 0, 1)
    assert not log.transactions.admitted
    assert log.admit(header(producer=1), NOW) == 0


def test_a_refused_marker_is_written_again() -> None:
    written = Written()
    log = written.log
    written.record(1)
    base = log.admit_marker(1, 1, bumps=True)
    log.abandon(base, base, 1)
    assert (log.stable, log.durable, log.next) == (0, 1, 1)
    base = log.admit_marker(1, 1, bumps=True)
    log.commit_transactional(base, marker_header(1, 1), 5, 10, Marker(False))
    assert (log.stable, log.aborted(0, 2)) == (2, [(1, 0)])


def test_a_marker_must_bump_the_epoch_only_while_something_is_open() -> None:
    written = Written()
    written.record(1)
    with pytest.raises(KafkaError) as caught:
        written.log.admit_marker(1, 0, bumps=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    written.marker(1, True, epoch=1)
    written.log.admit_marker(1, 1, bumps=True)  # one that is written again
    with pytest.raises(KafkaError):
        written.log.admit_marker(1, 0)


def test_deleted_records_of_an_open_transaction_do_not_hold_the_rest_back() -> None:
    written = Written()
    log = written.log
    written.record(1)
    written.plain()
    written.plain()
    log.move_start(2)
    assert (log.start, log.stable) == (2, 2)
    written.plain()
    assert log.stable == 2, "it is open still"
    written.marker(1, commit=False)
    assert log.stable == 5


def test_deleting_and_releasing_forget_what_was_aborted_before() -> None:
    written = Written()
    log = written.log
    for producer in (1, 2, 3):
        written.record(producer)
        written.marker(producer, commit=False)
    log.move_start(2)
    assert log.aborted(0, 6) == [(2, 2), (3, 4)]
    log.index.trim_below(4)
    log.release(0)  # the locations are of one segment
    assert not log.aborted(0, 6)


def columns_of(log: PartitionLog) -> SimpleNamespace:
    entries = list(log.index)
    return SimpleNamespace(
        base=np.array([one.base for one in entries]),
        last=np.array([one.last for one in entries]),
        max_ts=np.array([one.max_timestamp for one in entries]),
        location=np.array([one.location for one in entries]),
        length=np.array([one.length for one in entries]),
    )


def test_a_start_knows_what_is_open_and_aborted_from_offset_zero_on() -> None:
    written = Written()
    written.record(1)
    written.marker(1, commit=False)
    written.record(2)
    log = written.log
    again = restore_log(log.snapshot(), columns=columns_of(log))
    assert (again.stable, again.durable) == (2, 3)
    assert again.aborted(0, 2) == [(1, 0)]
    Written(again).marker(2, commit=True)
    assert again.stable == 4


def test_what_came_after_the_checkpoint_is_replayed_once() -> None:
    written = Written()
    written.record(1)
    written.marker(1, commit=False)
    log = written.log
    snapshot = log.snapshot()
    written.record(1, sequence=1)
    written.marker(1, commit=False)
    again = restore_log(snapshot, columns=columns_of(log))
    for base, marker in ((0, None), (1, False), (2, None), (3, False)):
        if marker is None:
            one = header(producer=1, base=base, sequence=base // 2, transactional=True)
            again.replay(one, NOW)
        else:
            again.replay(marker_header(1, base=base), NOW, Marker(marker))
    assert again.aborted(0, 4) == log.aborted(0, 4) == [(1, 0), (1, 2)]
    assert again.stable == 4


def test_a_marker_that_is_replayed_fences_as_it_did_when_it_was_written() -> None:
    written = Written()
    written.record(1)
    written.marker(1, commit=False, epoch=1)
    again = restore_log(None, columns=columns_of(written.log))
    again.replay(header(producer=1, transactional=True), NOW)
    again.replay(marker_header(1, 1, base=1), NOW, Marker(False))
    for log in (written.log, again):
        with pytest.raises(KafkaError) as caught:
            log.admit(header(producer=1, sequence=1, transactional=True), NOW)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_control_batch_that_says_nothing_that_we_know_is_passed_over() -> None:
    again = restore_log(None, lost_end=2)
    again.replay(header(producer=1, transactional=True), NOW)
    again.replay(marker_header(1, base=1), NOW, None)
    assert again.transactions.open == {1: 0}


def test_a_checkpoint_without_transactions_is_read_as_ever() -> None:
    older = LogSnapshot(3, PartitionLog().producers.snapshot())
    again = restore_log(older)
    assert (again.stable, again.durable) == (3, 3)


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    written = Written()
    written.record(1)
    written.record(2)
    written.marker(2, commit=True)
    assert written.log.expire_producers(NOW + 100, 50) == 1
    assert 1 in written.log.producers


def test_without_a_checkpoint_what_the_table_has_is_decided() -> None:
    """The marker may be in a segment that was let go before that of the records."""
    columns = SimpleNamespace(
        base=np.array([0, 4, 5, 7]),
        last=np.array([0, 4, 5, 7]),
        max_ts=np.zeros(4, np.int64),
        location=np.arange(1, 5),
        length=np.ones(4, np.int64),
    )
    log = restore_log(None, table_end=5, columns=columns)
    for producer, base in ((1, 0), (2, 4), (2, 5)):
        log.replay(_placed(header(producer=producer, transactional=True), base), NOW)
    assert (log.stable, log.durable) == (5, 8), "the one that has records behind it"
    log.replay(_placed(marker_header(2), 7), NOW, Marker(False))
    assert (log.stable, log.aborted(0, 8)) == (8, [(2, 5)])
    assert not log.is_in_segments(4), "the table says what of it counts"
    assert {1, 2} == {one.producer_id for one in log.producers.active(8)}


def test_a_marker_behind_what_the_table_has_says_what_was_aborted_there() -> None:
    """The table ends where another transaction was open. The next start reads the
    segments from the first record on."""
    columns = columns_up_to(3)
    log = restore_log(None, table_end=1, columns=columns)
    for producer, base in ((1, 0), (2, 1)):
        log.replay(_placed(header(producer=producer, transactional=True), base), NOW)
    log.replay(_placed(marker_header(1), 2), NOW, Marker(False).starting(0, 2))
    assert (log.stable, log.transactions.open) == (1, {2: 1})
    again = restore_log(log.snapshot(), table_end=1, columns=columns)
    assert again.is_in_segments(0)
    assert again.aborted(0, 1) == [(1, 0)]


def test_of_transactions_that_overlapped_each_is_known_to_be_aborted_again() -> None:
    """The second to begin was the first to end: nothing was stable then."""
    columns = SimpleNamespace(
        base=np.arange(4), last=np.arange(4), max_ts=np.zeros(4, np.int64),
        location=np.arange(1, 5), length=np.ones(4, np.int64),
    )  # fmt: skip
    log = restore_log(None, table_end=4, columns=columns)
    for producer, base in ((1, 0), (2, 1)):
        log.replay(_placed(header(producer=producer, transactional=True), base), NOW)
    for producer, base in ((2, 2), (1, 3)):
        log.replay(_placed(marker_header(producer), base), NOW, Marker(False))
    again = restore_log(log.snapshot(), table_end=4, columns=columns)
    assert again.is_in_segments(0)
    found = [again.aborted(0, end) for end in (1, 2, 3, 4)]
    assert found == [[(1, 0)], [(1, 0), (2, 1)], [(1, 0), (2, 1)], [(1, 0), (2, 1)]]


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_who_was_forgotten_goes_on_behind_a_marker_at_later_starts_as_well(
    starts: int,
) -> None:
    """His records were released, and the first start had no checkpoint."""
    log = restore_log(None, table_end=5)
    for _ in range(starts - 1):
        log = restore_log(log.snapshot(), table_end=5)
    base = log.admit_marker(2, 0)
    log.commit_transactional(base, marker_header(2), 1, 1, Marker(True))
    assert (
        log.admit(header(producer=2, sequence=5, transactional=True), NOW) == base + 1
    )


def a_log_that_forgot(released_end: int, columns: SimpleNamespace) -> PartitionLog:
    """A record of a transaction, and a plain one behind where its marker was."""
    log = restore_log(
        None, table_end=released_end, columns=columns, released_end=released_end
    )
    log.replay(_placed(header(producer=1, transactional=True), 0), NOW)
    return log


@pytest.mark.parametrize("held", [0, 1, None])
def test_records_whose_marker_was_released_are_left_to_the_table_while_they_are_held(
    held: int | None,
) -> None:
    columns = SimpleNamespace(
        base=np.array([0, 2]), last=np.array([0, 2]), max_ts=np.zeros(2, np.int64),
        location=np.arange(1, 3), length=np.ones(2, np.int64),
    )  # fmt: skip
    log = a_log_that_forgot(2, columns)
    for _ in range(2):  # the second has the checkpoint of the first
        assert log.index.first_offset == 2
        assert log.transactions.outlasts_release
        log = restore_log(log.snapshot(), columns=columns)
    log.release(0, held)
    assert log.transactions.outlasts_release == (held is not None)
    assert a_log_that_forgot(0, columns).transactions.forgotten_below == 0


def test_what_no_catalog_has_noted_as_released_is_left_to_the_table_as_well() -> None:
    """A version before did not note it; the gap below the table's end tells."""
    columns = columns_up_to(2)
    columns.base[1], columns.last[1], columns.location[1] = 2, 2, 5
    log = restore_log(None, table_end=2, columns=columns, places=[(2, 4, False)])
    log.replay(_placed(header(producer=1, transactional=True), 0), NOW)
    again = restore_log(log.snapshot(), columns=columns)
    assert again.index.first_offset == 2, "the marker may have been at 1"


def test_what_an_older_programs_marker_may_have_aborted_is_left_to_the_table() -> None:
    """It does not say where its transaction of version 1 began: at 0, or behind another
    one that ended below the table's end."""
    columns = columns_up_to(3)
    log = restore_log(None, table_end=1, columns=columns)
    for base in (0, 1):
        log.replay(_placed(header(producer=1, transactional=True), base), NOW)
    log.replay(_placed(marker_header(1), 2), NOW, Marker(False))
    log.end_replay()
    for _ in range(2):
        log = restore_log(log.snapshot(), table_end=1, columns=columns)
        assert log.index.first_offset == 1, "the table knows whether 0 counts"
        assert log.aborted(1, 3) == [(1, 1)]


Found = tuple[int, Marker | None] | None
"""An entry of producer 1: its epoch, and of a marker what that says; None: lost."""


def a_later_start(table_end: int, *entries: Found) -> PartitionLog:
    """The log of a start that has the checkpoint of one that had none, and no table.
    Each entry has an offset of its own."""
    columns = columns_up_to(len(entries))
    at = [base for base, one in enumerate(entries) if one is not None]
    columns = SimpleNamespace(**{name: one[at] for name, one in vars(columns).items()})
    log = restore_log(None, table_end=table_end, columns=columns)
    for base, one in enumerate(entries):
        if one is not None:
            epoch, marker = one
            found = header(producer=1, epoch=epoch, transactional=True)
            found = found if marker is None else marker_header(1, epoch)
            log.replay(_placed(found, base), NOW, marker)
    log.end_replay()
    return restore_log(log.snapshot(), columns=columns)


@pytest.mark.parametrize(
    ("table_end", "entries"),
    [
        (1, [(0, None), None]),
        (1, [(0, None), None, (0, Marker(True).starting(2, 2))]),
        (1, [(0, None), None, (0, None), (0, Marker(False).starting(2, 3))]),
        (1, [(0, None), None, (2, Marker(True))]),
        (3, [(0, None), None, (1, None), (2, Marker(True))]),
    ],
)
def test_records_whose_marker_is_lost_are_left_to_the_table(
    table_end: int, entries: list[Found]
) -> None:
    """What a table has of a transaction is decided, and how only that knows then."""
    assert a_later_start(table_end, *entries).first_in_segments >= table_end


@pytest.mark.parametrize(
    "entries",
    [
        [(0, None), None, (0, Marker(False).starting(0, 2))],
        [(0, None), (0, None), None, (0, Marker(True).starting(0, 3))],
        [(0, None), None, (1, Marker(False))],
    ],
)
def test_records_whose_marker_is_there_are_read_in_segments(
    entries: list[Found],
) -> None:
    """Be anything else lost beside them or not."""
    log = a_later_start(1, *entries)
    assert log.index.first_offset == 0
    assert not log.transactions.forgotten_below
    is_committed = entries[-1] and entries[-1][1] and entries[-1][1].commit
    assert log.aborted(0, log.durable) == ([] if is_committed else [(1, 0)])


def test_what_is_undecided_is_never_shown_where_the_table_had_decided_it() -> None:
    """Its marker was at 1, which is lost. A start that has the table, which goes on
    behind that, reads there; one that has it no more reads segments again."""
    written = Written()
    written.record(1)
    columns = columns_up_to(3)
    columns = SimpleNamespace(
        **{name: column[[0, 2]] for name, column in vars(columns).items()}
    )
    places = [(2, 3, False)]
    log = restore_log(written.log.snapshot(), columns=columns, places=places)
    log.replay(_placed(header(producer=1, epoch=1, transactional=True), 2), NOW)
    assert log.transactions.undecided == [Undecided(0, 1)]
    log = restore_log(log.snapshot(), table_end=2, columns=columns)
    assert (log.first_in_segments, log.transactions.undecided) == (2, [])
    for _ in range(2):
        log = restore_log(log.snapshot(), columns=columns)
        assert log.first_in_segments == 2
    log.release(0, held=2)
    assert not log.transactions.forgotten_below, "nothing is left of it"


@pytest.mark.parametrize("marker", [Marker(False).starting(0, 3), Marker(False)])
def test_a_transaction_from_the_first_offset_on_is_aborted_as_a_whole(
    marker: Marker,
) -> None:
    """Also where the table ends amid it, since another one was open there; and in
    version 2, where no marker says where it began, but each has an epoch."""
    columns = columns_up_to(4)
    log = restore_log(None, table_end=1, columns=columns)
    for producer, base in ((1, 0), (2, 1), (1, 2)):
        log.replay(_placed(header(producer=producer, transactional=True), base), NOW)
    log.replay(_placed(marker_header(1, 1), 3), NOW, marker)
    again = restore_log(log.snapshot(), table_end=1, columns=columns)
    assert again.is_in_segments(0)
    assert again.aborted(0, 1) == [(1, 0)]


def test_a_marker_of_version_2_is_not_of_an_epoch_before() -> None:
    """One of which a table has the records, and no segment the marker; behind it is
    another whose records the table's end parts."""
    columns = columns_up_to(6)
    log = restore_log(None, table_end=3, columns=columns)
    for epoch, base in ((0, 0), (1, 1), (1, 3)):
        one = header(producer=1, epoch=epoch, transactional=True)
        log.replay(_placed(one, base), NOW)
    log.replay(_placed(marker_header(1, 2), 4), NOW, Marker(False))
    assert log.aborted(0, 6) == [(1, 1)]


def test_a_marker_that_is_lost_is_not_made_up_for_by_what_a_table_has() -> None:
    """Of the first transaction the table has a part; its marker is lost, and the next
    one says that it decides only what is behind."""
    columns = columns_up_to(4)
    log = restore_log(None, table_end=1, columns=columns)
    for base in (0, 1, 2):
        one = header(producer=1, sequence=base, transactional=True)
        log.replay(_placed(one, base), NOW)
    log.replay(_placed(marker_header(1), 3), NOW, Marker(False).starting(2, 3))
    assert log.transactions.undecided == [Undecided(1, 2)]
    assert log.aborted(0, 4) == [(1, 2)]


def test_who_reads_little_of_what_the_table_has_is_told_of_all_aborted_there() -> None:
    """What was stable when a marker came is known: others were open."""
    columns = columns_up_to(5)
    log = restore_log(None, table_end=5, columns=columns)
    for producer, base in ((1, 0), (2, 1)):
        log.replay(_placed(header(producer=producer, transactional=True), base), NOW)
    for producer, base in ((1, 2), (2, 4)):
        one = _placed(marker_header(producer), base)
        log.replay(one, NOW, Marker(False).starting(producer - 1, base))
    again = restore_log(log.snapshot(), table_end=5, columns=columns)
    assert again.is_in_segments(1)
    assert again.aborted(1, 2) == [(1, 0), (2, 1)]


@pytest.mark.parametrize("start", [3, 4, 5])
def test_what_was_released_and_deleted_holds_nobody_back(start: int) -> None:
    """Without a checkpoint the marker may be gone, and no table has it. Of a batch that
    was deleted in part the rest counts."""
    columns = columns_up_to(2)
    columns.base[1], columns.last[1] = 3, 5  # what is between was released
    log = restore_log(None, start=start, table_end=4, columns=columns)
    for count, base in ((1, 0), (3, 3)):
        one = header(count, producer=base, transactional=True)
        log.replay(_placed(one, base), NOW)
    is_table = start < 4  # it has of the second batch what lies below 4
    assert log.transactions.open == ({} if is_table else {3: 3})
    assert log.stable == (6 if is_table else start)


@pytest.mark.parametrize("table_end", [0, 1, 2, 3])
def test_what_was_deleted_whole_is_not_open_however_far_the_table_reaches(
    table_end: int,
) -> None:
    """A table that is not there at one start, and was at the one before, moves nothing
    back. What its producer writes there from now on is another part."""
    log = restore_log(None, start=2, table_end=table_end, columns=columns_up_to(6))
    one = header(producer=1, transactional=True)
    log.replay(_placed(one, 0), NOW)
    assert (log.stable, log.transactions.open) == (6, {})
    log.replay(_placed(one._replace(base_sequence=1), 4), NOW)
    assert (log.stable, log.transactions.open) == (4, {1: 4})
    log.replay(_placed(marker_header(1), 5), NOW, Marker(False).starting(0, 5))
    assert (log.stable, log.aborted(2, 6)) == (6, [(1, 0)])


def columns_up_to(end: int) -> SimpleNamespace:
    """Of entries of one record each, from offset 0 on."""
    return SimpleNamespace(
        base=np.arange(end), last=np.arange(end), max_ts=np.zeros(end, np.int64),
        location=np.arange(1, end + 1), length=np.ones(end, np.int64),
    )  # fmt: skip


def _placed(one: BatchHeader, base: int) -> BatchHeader:
    return one._replace(base_offset=base)


def damaged_under_an_open_transaction() -> Written:
    """Producer 1's record at 0, then a lost offset; its next one stands behind."""
    written = Written()
    written.record(1)
    written.marker(2, commit=True)
    written.log.lost.append(Lost(1, 2, damaged=True))
    written.record(1, sequence=1)
    return written


def test_a_marker_that_comes_later_does_not_decide_what_is_before_the_damage() -> None:
    written = damaged_under_an_open_transaction()
    log = written.log
    written.marker(1, commit=False)
    assert (log.stable, log.aborted(0, 4)) == (4, [(1, 0)])
    found = [log.transactions.next_undecided(offset) for offset in (0, 1, 2)]
    assert found == [Undecided(0, 2), Undecided(0, 2), None]
    log.move_start(2)
    assert log.transactions.undecided == []
    assert log.aborted(2, 4) == [(1, 0)]


def test_a_marker_whose_epoch_is_a_later_ones_decides_nothing_behind_the_damage() -> (
    None
):
    """Its own transaction wrote nothing here, or nothing that is left."""
    written = damaged_under_an_open_transaction()
    log = written.log
    written.marker(1, commit=True, epoch=2)
    assert (log.stable, log.aborted(0, 4)) == (4, [])
    found = [log.transactions.next_undecided(offset) for offset in (0, 2, 3)]
    assert found == [Undecided(0, 3), Undecided(0, 3), None]


def test_what_is_before_the_damage_holds_nobody_elses_marker() -> None:
    written = damaged_under_an_open_transaction()
    written.record(3)
    written.marker(3, commit=True)
    assert written.log.transactions.undecided == []
