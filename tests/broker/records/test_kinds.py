"""What batches are, gathered from their headers at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.records.batch import assign, read_header
from broker.records.kinds import (
    ABORT,
    COMMIT,
    CONTROL,
    DAMAGED,
    PLAIN,
    TRANSACTIONAL,
    Kinds,
    join,
    kinds_of,
    verified_kinds_of,
)
from broker.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch, read_marker
from tests.support.batches import Record, make_batch


def plain(producer: int) -> bytes:
    return bytes(make_batch([Record()] * 3, producer=(producer, 0, 0)))


def transactional(producer: int, epoch: int = 0) -> bytes:
    of_it = producer, epoch, 0
    batch = make_batch(
        [Record(b"k")], producer=of_it, attributes=TRANSACTIONAL_BIT, codec=4
    )
    return bytes(batch)


def marker(producer: int, commit: bool) -> bytes:
    return bytes(marker_batch(producer, 0, Marker(commit), 1_000))


MARKED = [(9, 5), (9, 9), (2**40, 2**40 - 7), (9, None), (0, 0)]


def marker_at(base: int, start: int | None) -> bytes:
    batch = marker_batch(1, 0, Marker(True).starting(start, base), 1_000)
    assign(batch, base, 0)
    return bytes(batch)


def control(producer: int) -> bytes:
    batch = marker_batch(producer, 0, Marker(True), 1_000)
    batch[68:70] = b"\0\x02"  # as KRaft's leader change
    return bytes(batch)


PRODUCER = st.integers(0, 2**63 - 1)
BATCH = st.one_of(
    PRODUCER.map(plain),
    st.builds(transactional, PRODUCER, st.integers(0, 2**15 - 1)),
    st.builds(marker, PRODUCER, st.booleans()),
    PRODUCER.map(control),
)


def laid_out(batches: list[bytes]) -> tuple[memoryview, np.ndarray]:
    """One behind another with something in between, and where they begin."""
    data, positions = bytearray(b"seg"), []
    for batch in batches:
        positions.append(len(data) + 48)
        data += bytes(48) + batch
    return memoryview(data), np.array(positions, np.int64)


def kind_by_hand(batch: bytes) -> int:
    header = read_header(batch)
    if header.is_control:
        if batch[69] > 1:
            return CONTROL
        return COMMIT if read_marker(batch).commit else ABORT
    return TRANSACTIONAL if header.is_transactional else PLAIN


@given(st.lists(BATCH, max_size=12))
def test_agrees_with_a_look_at_each_header(batches: list[bytes]) -> None:
    found = kinds_of(*laid_out(batches))
    wanted = [kind_by_hand(batch) for batch in batches]
    if not any(wanted):
        assert found is None
        return
    assert found is not None
    assert found.kind.tolist() == wanted
    whose = zip(found.producer.tolist(), found.epoch.tolist(), strict=True)
    for batch, known, kind in zip(batches, whose, wanted, strict=True):
        header = read_header(batch)
        said = header.producer_id, header.producer_epoch
        assert known == (said if kind else (-1, -1))


def test_a_control_batch_that_is_not_transactional_is_control_all_the_same() -> None:
    batch = bytearray(control(7))
    batch[21:23] = CONTROL_BIT.to_bytes(2, "big")
    found = kinds_of(*laid_out([bytes(batch)]))
    assert found is not None
    assert found.kind.tolist() == [CONTROL]


def test_runs_are_joined_and_plain_ones_stay_nothing() -> None:
    assert join([(3, None), (0, None)]) is None
    epoch, start = np.array([5], np.int16), np.array([9])
    some = Kinds(np.array([ABORT], np.uint8), np.array([7]), epoch, start)
    joined = join([(2, None), (1, some), (1, None)])
    assert joined is not None
    assert joined.kind.tolist() == [PLAIN, PLAIN, ABORT, PLAIN]
    assert joined.producer.tolist() == [-1, -1, 7, -1]
    assert joined.epoch.tolist() == [-1, -1, 5, -1]
    assert joined.start.tolist() == [-1, -1, 9, -1]
    assert joined.kind.dtype == np.uint8


@pytest.mark.parametrize("some", [slice(1, 2), np.array([False, True])])
def test_some_are_cut_out(some) -> None:
    epochs = np.array([0, 3], np.int16)
    kind, two = np.array([ABORT, COMMIT], np.uint8), np.array([7, 8])
    kinds = Kinds(kind, two, epochs, two - 7)
    assert [one.tolist() for one in kinds.cut(some)] == [[COMMIT], [8], [3], [1]]


def test_a_marker_says_from_which_offset_on_it_decides() -> None:
    batches = [marker_at(base, start) for base, start in MARKED]
    found = kinds_of(*laid_out([*batches, transactional(1), marker(1, True)]))
    assert found is not None
    said = [-1 if start is None else start for _, start in MARKED]
    assert found.start.tolist() == [*said, -1, -1]


def test_the_first_of_a_producer_and_of_each_epoch_is_looked_at() -> None:
    """A damaged epoch would make of one transaction two, of which one never ends. What
    is of no transaction is not: it ends nothing."""
    batches = [transactional(producer, epoch) for producer, epoch in LOOKED_AT]
    batches.append(plain(9))
    view, positions = laid_out(batches)
    asked = []
    lengths = np.full(len(batches), 500)  # none is as long as a marker
    found = verified_kinds_of(view, positions, lengths, lambda at: asked.append(at))
    first, other = [positions[0], positions[1]], [positions[2], positions[4]]
    assert sorted(asked) == sorted(first + other)
    assert found is not None
    is_damaged = [True, True, True, False, True, False]
    assert (found.kind == DAMAGED).tolist() == is_damaged


LOOKED_AT = ((7, 3), (8, 1), (7, 4), (8, 1), (7, 3))
