"""Of a run each batch can be had, and all of them in one piece, wherever they lie."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker.records.runs import Run

PIECES = st.lists(st.tuples(st.binary(max_size=9), st.binary(min_size=1, max_size=99)))


def run_of(pieces: list[tuple[bytes, bytes]], attributes: int = 0) -> Run:
    """Each is what lies before a batch, and the batch; its number is its count."""
    data, at = b"", []
    for gap, batch in pieces:
        at.append(len(data) + len(gap))
        data += gap + batch
    columns: list[Any] = [
        at, [len(batch) for _, batch in pieces], range(len(pieces)),
        [attributes] * len(pieces),
    ]  # fmt: skip
    return Run(data, *(np.array(column, np.int64) for column in columns))


@given(PIECES, st.data())
def test_batches_are_those_that_were_laid_there(
    pieces: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    run, batches = run_of(pieces), [batch for _, batch in pieces]
    mask = data.draw(st.lists(st.booleans(), min_size=len(run), max_size=len(run)))
    start = data.draw(st.integers(0, len(run)))
    kept = [batch for batch, is_kept in zip(batches, mask, strict=True) if is_kept]
    for some, those in (
        (run, batches),
        (run.cut(slice(start, None)), batches[start:]),
        (run.cut(np.array(mask, np.bool_)), kept),
    ):
        assert len(some) == len(those)
        assert some.batches() == those
        assert some.joined().tobytes() == b"".join(those)


def test_one_that_is_compressed_makes_a_run_that_is_not_plain() -> None:
    assert run_of([(b"", b"a"), (b"", b"b")], attributes=0x38).is_plain
    lz4 = run_of([(b"", b"a")], attributes=0x13)
    assert lz4.codecs.tolist() == [3]
    assert not lz4.is_plain
