"""What batches are, gathered from their headers at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.records.batch import read_header
from broker.records.kinds import (
    ABORT,
    COMMIT,
    CONTROL,
    PLAIN,
    TRANSACTIONAL,
    Kinds,
    join,
    kinds_of,
)
from broker.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch, read_marker
from tests.support.batches import Record, make_batch


def plain(producer: int) -> bytes:
    return bytes(make_batch([Record()] * 3, producer=(producer, 0, 0)))


def transactional(producer: int) -> bytes:
    batch = make_batch(
        [Record(b"k")], producer=(producer, 0, 0), attributes=TRANSACTIONAL_BIT, codec=4
    )
    return bytes(batch)


def marker(producer: int, commit: bool) -> bytes:
    return bytes(marker_batch(producer, 0, Marker(commit), 1_000))


def control(producer: int) -> bytes:
    batch = marker_batch(producer, 0, Marker(True), 1_000)
    batch[68:70] = b"\0\x02"  # as KRaft's leader change
    return bytes(batch)


PRODUCER = st.integers(0, 2**63 - 1)
BATCH = st.one_of(
    PRODUCER.map(plain),
    PRODUCER.map(transactional),
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
    producers = zip(batches, found.producer.tolist(), strict=True)
    for (batch, producer), kind in zip(producers, wanted, strict=True):
        assert producer == (read_header(batch).producer_id if kind else -1)


def test_a_control_batch_that_is_not_transactional_is_control_all_the_same() -> None:
    batch = bytearray(control(7))
    batch[21:23] = CONTROL_BIT.to_bytes(2, "big")
    found = kinds_of(*laid_out([bytes(batch)]))
    assert found is not None
    assert found.kind.tolist() == [CONTROL]


def test_runs_are_joined_and_plain_ones_stay_nothing() -> None:
    assert join([(3, None), (0, None)]) is None
    some = Kinds(np.array([ABORT], np.uint8), np.array([7]))
    joined = join([(2, None), (1, some), (1, None)])
    assert joined is not None
    assert joined.kind.tolist() == [PLAIN, PLAIN, ABORT, PLAIN]
    assert joined.producer.tolist() == [-1, -1, 7, -1]
    assert joined.kind.dtype == np.uint8


@pytest.mark.parametrize("some", [slice(1, 2), np.array([False, True])])
def test_some_are_cut_out(some) -> None:
    kinds = Kinds(np.array([ABORT, COMMIT], np.uint8), np.array([7, 8]))
    cut = kinds.cut(some)
    assert (cut.kind.tolist(), cut.producer.tolist()) == ([COMMIT], [8])
