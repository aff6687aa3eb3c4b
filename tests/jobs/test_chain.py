"""What a chain answers from its sums is what going through all of it would tell."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobs.batches import Batches, Places
from jobs.chain import Chain
from jobs.missing import gaps


def batches(sequence: int, spans: list[tuple[int, int]]) -> Batches:
    """Batches [first, end) of a segment; each is as long as it has offsets, and one."""
    base = np.array([first for first, _ in spans], np.int64)
    last = np.array([end - 1 for _, end in spans], np.int64)
    return Batches.all_of(sequence, "", Places.of(base, last, base, last - base + 2))


spans = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=4
)
"""Of each batch the gap before it, and how many offsets it has."""
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "grow", "drop", "anew"]),
        st.integers(0, 8),
        st.integers(-6, 3),
        spans,
    ),
    max_size=12,
)


def made(sequence: int, start: int, of: list[tuple[int, int]]) -> Batches:
    found, at = [], max(start, 0)
    for gap, count in of:
        found.append((at + gap, at + gap + count))
        at += gap + count
    return batches(sequence, found)


def told(chain: Chain, start: int) -> tuple[list[list[int]], int]:
    chunks, size = chain.above(start)
    return [chunk.base.tolist() for chunk in chunks], size


@given(steps, st.integers(-1, 60))
def test_it_answers_as_a_list_would(
    steps: list[tuple[str, int, int, list[tuple[int, int]]]], start: int
) -> None:
    chain, model = Chain(), dict[int, Batches]()
    for what, number, shift, of in steps:
        end = int(model[max(model)].last[-1]) + 1 if model else 0
        if what == "drop":
            gone = set(sorted(model)[: number % 3]) | {number}
            had = bool(gone & model.keys())
            assert chain.drop(gone) == had
            model = {n: one for n, one in model.items() if n not in gone}
            continue
        sequence = number if what == "anew" else max(model, default=0)
        sequence += what == "add"
        model[sequence] = made(sequence, end + shift, of)
        chain.put(model[sequence])
    chunks = [model[n] for n in sorted(model)]
    assert [one.sequence for one in chain.chunks] == sorted(model)
    again = [b.sequence for a, b in pairwise(chunks) if b.base[0] <= a.last[-1]]
    assert chain.again == again
    if again or not chunks:
        return
    above = [one for c in chunks if len(one := c.above(start))]
    sizes = sum(int(one.length.sum()) for one in above)
    assert told(chain, start) == ([one.base.tolist() for one in above], sizes)
    assert chain.end == int(chunks[-1].last[-1]) + 1
    if chain.goes_on(start):
        assert gaps(start, above) == []
    elif above:  # it may not know, where a gap lies in what is cut
        assert (
            gaps(min(start, int(chunks[0].base[0])), chunks) or start < above[0].base[0]
        )


def test_whole_segments_one_behind_the_other_go_on_from_anywhere_inside() -> None:
    chain = Chain()
    for sequence in range(3):
        chain.put(batches(sequence, [(sequence * 10, sequence * 10 + 10)]))
    assert [chain.goes_on(start) for start in (-1, 0, 15, 29, 30)] == [
        False,
        *[True] * 4,
    ]
    chain.drop({1})
    assert not any(chain.goes_on(start) for start in (5, 15))


def test_what_is_not_plain_is_counted() -> None:
    from broker.records.kinds import Kinds

    kinds = Kinds(*np.zeros((4, 1), np.int16))
    chain, plain = Chain(), batches(1, [(0, 1)])
    special = Batches.all_of(2, "", Places.of(*(plain.base + 1,) * 4), kinds)
    chain.put(plain)
    chain.put(special)
    assert chain.specials == 1
    chain.put(batches(2, [(1, 2)]))
    assert chain.specials == 0
    chain.put(special)
    chain.drop({1, 2})
    assert (chain.specials, chain.chunks) == (0, [])
