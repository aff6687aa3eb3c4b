"""What counts of a partition's batches, against a walk over all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.lost import Lost
from broker.log.partition import PartitionLog
from broker.records.batch import assign, read_header
from broker.records.kinds import (
    ABORT,
    COMMIT,
    CONTROL,
    DAMAGED,
    PLAIN,
    TRANSACTIONAL,
)
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from jobs.decided import decided, undecidable
from jobs.stuck import Stop
from tests.jobs.specials import (
    Special,
    bases_of,
    chunk_of,
    end_by_hand,
    epoch_of,
    start_of,
)
from tests.support.batches import Record, make_batch


def found_in(
    specials: list[Special], cuts: list[int], lost: frozenset[int] = frozenset()
) -> tuple[int, list[int]]:
    """Where the stable part ends, and the offsets that count in it."""
    chunks, first, bases = [], 0, bases_of(specials)
    for sequence, end in enumerate([*sorted(cuts), len(specials)]):
        if first < end:
            chunks.append(chunk_of(specials[first:end], bases[first], sequence))
        first = max(first, end)
    gone = [bases[at] for at in lost if at < len(specials)]
    chunks = [one.only(~np.isin(one.base, gone)) for one in chunks]
    chunks = [one for one in chunks if len(one)]
    result = decided(chunks, holes_of(lost, bases))
    counted = [offset for one in result for offset in one.counted().base.tolist()]
    ends = [int(one.last[-1]) + 1 for one in result]
    return max(ends, default=0), counted


def holes_of(lost: frozenset[int], bases: list[int]) -> list[tuple[int, int]]:
    """At which offset each run of these ends, and how many it has."""
    lost = frozenset(at for at in lost if at + 1 < len(bases))
    firsts = sorted(bases[at] for at in lost if at - 1 not in lost)
    ends = sorted(bases[at + 1] for at in lost if at + 1 not in lost)
    return [(end, end - first) for first, end in zip(firsts, ends, strict=True)]


def by_hand(
    specials: list[Special], lost: frozenset[int] = frozenset()
) -> tuple[int, list[int]]:
    """The same: for each batch, look ahead for its producer's next marker."""
    counted, stop, bases = [], len(specials), bases_of(specials)
    for at, one in enumerate(specials):
        if at in lost:
            continue
        kind = one[0]
        if kind == PLAIN:
            counted.append(at)
        elif kind == DAMAGED:  # it may be anything
            stop = min(stop, at)
        elif kind == TRANSACTIONAL:
            end = end_by_hand(at, specials, lost)
            if end is None:
                stop = min(stop, at)
            elif end == COMMIT:
                counted.append(at)
    there = [at for at in range(stop) if at not in lost]
    end = bases[there[-1] + 1] if there else 0
    return end, [bases[at] for at in counted if at < stop]


EPOCHS = st.sampled_from([0, 0, 0, 1, 2])
STARTS = st.sampled_from([-1, -1, -1]) | st.integers(0, 40)
COUNTS = st.integers(1, 3)
SPECIALS = st.lists(
    st.tuples(st.just(PLAIN), st.just(-1), EPOCHS, st.just(-1), COUNTS)
    | st.tuples(st.just(DAMAGED), st.integers(-1, 3), EPOCHS, st.just(-1), COUNTS)
    | st.tuples(st.just(TRANSACTIONAL), st.integers(1, 3), EPOCHS, STARTS, COUNTS)
    | st.tuples(
        st.sampled_from([ABORT, COMMIT, CONTROL]), st.integers(1, 3), EPOCHS, STARTS
    ),
    max_size=25,
)


@given(
    SPECIALS,
    st.lists(st.integers(0, 25), max_size=3),
    st.frozensets(st.integers(0, 25), max_size=3),
)
def test_agrees_with_a_look_ahead_from_each_batch(specials, cuts, lost) -> None:
    cuts = [min(cut, len(specials)) for cut in cuts]
    assert found_in(specials, cuts, lost) == by_hand(specials, lost)


T1 = (TRANSACTIONAL, 1, 0)


@pytest.mark.parametrize(
    ("later", "counted"),
    [
        ([(DAMAGED, -1), (COMMIT, 1, 0, 0)], [0, 1]),
        ([(DAMAGED, -1), (DAMAGED, 1), (COMMIT, 1, 0, 0)], [0, 1]),
        ([(DAMAGED, 1, 7), T1, (COMMIT, 1, 0, 0)], [0, 1]),
        ([(DAMAGED, -1), (COMMIT, 1, 5, 0)], [0, 1]),
        ([(DAMAGED, -1), (COMMIT, 1, 1)], [0, 1]),
        ([(DAMAGED, -1), (PLAIN, -1), (COMMIT, 1, 1)], [0, 1]),
        ([(DAMAGED, -1), (COMMIT, 1, 0, 2)], []),
        ([(DAMAGED, -1), (COMMIT, 1, 2)], []),
        ([(DAMAGED, -1), (DAMAGED, -1), (COMMIT, 1, 1)], []),
        ([(DAMAGED, -1), T1, (COMMIT, 1, 1)], []),
        ([(DAMAGED, -1), T1, (DAMAGED, -1), (COMMIT, 1, 1)], []),
    ],
)
def test_a_marker_that_says_its_start_or_was_written_again_decides_across_damage(
    later, counted
) -> None:
    """As in the broker, which serves what it commits."""
    assert found_in([T1, T1, *later], [])[1] == counted


T3 = (TRANSACTIONAL, 1, 0, -1, 3)


@pytest.mark.parametrize(
    ("later", "lost", "counted"),
    [
        ([(COMMIT, 1)], [], [0]),
        ([(PLAIN, -1, 0, -1, 5), (COMMIT, 1)], [1], []),
        ([(PLAIN, -1), (COMMIT, 1)], [1], [0]),
        ([(DAMAGED, 1, 0, -1, 3), (COMMIT, 1)], [], []),
        ([(DAMAGED, 1), (COMMIT, 1)], [], [0]),
        ([(TRANSACTIONAL, 1, 1, -1, 3), (COMMIT, 1, 1)], [], []),
        ([(TRANSACTIONAL, 1, 0, -1, 3), (COMMIT, 1, 1)], [], [0, 3]),
    ],
)
def test_a_marker_decides_where_nothing_else_can_have_stood_between(
    later, lost, counted
) -> None:
    """But for itself: it may have been written again, behind one offset alone. And it
    decides records of one epoch only."""
    assert found_in([T3, *later], [], frozenset(lost))[1] == counted


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["record", "record", "commit", "abort", "plain"]),
        st.integers(1, 2),
        st.booleans(),  # a marker says where its transaction begins
        st.sampled_from([False, False, False, True]),  # it is damaged
    ),
    max_size=20,
)


def laid_out(steps, *, bumps: bool) -> list[Special]:
    """As producers write that end each transaction before the next; ``bumps``: by
    version 2, where each has an epoch."""
    found: list[Special] = []
    open_: dict[int, int] = {}
    epochs = {1: 0, 2: 0}
    for what, producer, says, _ in steps:
        epoch = epochs[producer]
        if what == "plain":
            found.append((PLAIN, -1))
        elif what == "record":
            open_.setdefault(producer, len(found))
            found.append((TRANSACTIONAL, producer, epoch))
        elif producer in open_:
            epochs[producer] = epoch = epoch + bumps
            start = open_.pop(producer)
            kind = COMMIT if what == "commit" else ABORT
            found.append((kind, producer, epoch, start if says else -1))
    return found


def served(specials: list[Special], lost: set[int]) -> tuple[set[int], set[int]]:
    """Of the records those that a broker which started with these serves as committed,
    and those of which it does not know or that are open."""
    log = PartitionLog(0, len(specials))
    log.lost = [Lost(at, at + 1, damaged=True) for at in sorted(lost)]
    for at, one in enumerate(specials):
        if at not in lost:
            replay(log, at, one)
    transactions, end = log.transactions, len(specials)
    aborted, gone, committed = log.aborted(0, end), set[int](), set[int]()
    unknown = {
        at for first in transactions.undecided for at in range(first.first, first.end)
    }
    unknown |= {*range(min(transactions.open.values(), default=end), end)}
    for at, (kind, producer, *_) in enumerate(specials):
        gone |= {who for who, first in aborted if first == at}
        if kind == ABORT and at not in lost:
            gone.discard(producer)
        is_record = kind == PLAIN or (kind == TRANSACTIONAL and producer not in gone)
        if is_record and at not in lost | unknown:
            committed.add(at)
    return committed, unknown - lost


def replay(log: PartitionLog, at: int, special: Special) -> None:
    kind, producer, marker = special[0], special[1], None
    epoch = epoch_of(special)
    if kind in (PLAIN, TRANSACTIONAL):
        more = {"producer": (producer, epoch, at), "attributes": TRANSACTIONAL_BIT}
        batch = make_batch([Record()], at, **more if kind else {})
    else:
        start = start_of(special)
        marker = Marker(kind == COMMIT).starting(None if start < 0 else start, at)
        batch = marker_batch(producer, epoch, marker, 0)
        assign(batch, at)
    log.replay(read_header(batch), 0, marker)


@given(STEPS, st.booleans())
def test_what_the_broker_serves_as_committed_counts(steps, bumps) -> None:
    """And what ends the part that is decided, the broker does not know either."""
    specials = laid_out(steps, bumps=bumps)
    lost = {at for at, step in enumerate(steps[: len(specials)]) if step[3]}
    damaged = [(DAMAGED, *one[1:]) for one in specials]
    read = [damaged[at] if at in lost else one for at, one in enumerate(specials)]
    stop, counted = found_in(read, [])
    committed, unknown = served(specials, lost)
    assert {at for at in committed if at < stop} == set(counted)
    assert stop == len(specials) or stop in lost | unknown


def test_plain_batches_are_handed_back_as_they_are() -> None:
    chunk = chunk_of([(PLAIN, -1)] * 3, 0, 1)
    assert decided([chunk]) == [chunk]
    assert decided([chunk])[0].counts is None


def test_what_does_not_count_keeps_its_place() -> None:
    specials = [(TRANSACTIONAL, 1), (PLAIN, -1), (ABORT, 1)]
    (chunk,) = decided([chunk_of(specials, 0, 1)])
    assert chunk.base.tolist() == [0, 1, 2]
    assert chunk.counted().base.tolist() == [1]
    assert chunk.cut(1, 3).counted().base.tolist() == [1]


def test_nothing_is_left_of_what_begins_with_an_open_transaction() -> None:
    assert decided([chunk_of([(TRANSACTIONAL, 1), (PLAIN, -1)], 0, 1)]) == []


@pytest.mark.parametrize(
    "next_one",
    [
        [(PLAIN, -1), (TRANSACTIONAL, 1, 0), (COMMIT, 1, 0, 4)],
        [(TRANSACTIONAL, 1, 1)],
        [(COMMIT, 1, 2)],
        [(COMMIT, 1, 0, 2)],
        [(TRANSACTIONAL, 1, 0), (ABORT, 1, 0, 2)],
    ],
)
def test_a_marker_that_is_lost_without_a_trace_ends_what_is_decided(next_one) -> None:
    chunk = chunk_of([(PLAIN, -1), (TRANSACTIONAL, 1, 0), *next_one], 0, 4)
    judged = decided([chunk])
    assert [one.base.tolist() for one in judged] == [[0]]
    assert undecidable([chunk], judged) == Stop(
        "segment 4: the marker of the transaction that begins at offset 1 is lost, so "
        "it is not known whether its records count",
        2,
    )


@pytest.mark.parametrize(
    ("specials", "end"),
    [
        ([(TRANSACTIONAL, 1), (PLAIN, -1), (PLAIN, -1)], 2),
        ([(TRANSACTIONAL, 1), (TRANSACTIONAL, 1), (PLAIN, -1)], 2),
        ([(TRANSACTIONAL, 1), (PLAIN, -1), (TRANSACTIONAL, 1)], 2),
        ([(TRANSACTIONAL, 1), (TRANSACTIONAL, 2), (PLAIN, -1)], 2),
        ([(TRANSACTIONAL, 1), (COMMIT, 1), (PLAIN, -1)], 5),
        ([(TRANSACTIONAL, 1, 0), (COMMIT, 1, 2), (TRANSACTIONAL, 2)], 2),
    ],
)
def test_before_a_damaged_marker_the_open_records_are_given_up(specials, end) -> None:
    """The first batch that is open, if it comes before the marker: whole ones may stand
    between it and the next. If none is, the marker."""
    later = [(DAMAGED, -1), (TRANSACTIONAL, 1), (TRANSACTIONAL, 2)]
    chunk = chunk_of([(PLAIN, -1), *specials, *later], 0, 1)
    stop = undecidable([chunk], decided([chunk]))
    assert stop is not None
    assert stop.end == end


@pytest.mark.parametrize("may_come", [(TRANSACTIONAL, 1, 0), (COMMIT, 2, 5)])
def test_a_marker_that_may_come_is_not_lost(may_come) -> None:
    chunk = chunk_of([(TRANSACTIONAL, 1, 0), may_come], 0, 1)
    assert undecidable([chunk], decided([chunk])) is None


def test_what_is_open_before_damage_is_named_beside_the_advice() -> None:
    specials = [(PLAIN, -1), (TRANSACTIONAL, 1, 0), (PLAIN, -1), (DAMAGED, 2, 0)]
    chunk = chunk_of(specials, 0, 4)
    stop = undecidable([chunk], decided([chunk]))
    assert stop is not None
    assert (stop.end, stop.is_open) == (2, True)
    assert "wait until its producer has ended it" in stop.reason(0, is_next=True)
    alone = chunk_of([(PLAIN, -1), (DAMAGED, 2, 0)], 0, 4)
    stop = undecidable([alone], decided([alone]))
    assert stop is not None
    assert (stop.end, stop.is_open) == (2, False)
