"""What an answer takes of chunks: batch by batch, as a list of all of them says."""

from hypothesis import given
from hypothesis import strategies as st

from broker.lake.rebuilt import Rebuilt, Taken

SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=5)


def chunks_of(sizes: list[list[int]]) -> list[tuple[Rebuilt, int]]:
    """Chunks whose batches have these bytes and three offsets each, and behind each
    chunk a gap of two; where reading goes on behind each."""
    chunks, offset = [], 0
    for chunk in sizes:
        lasts = [offset + 3 * n + 2 for n in range(len(chunk))]
        offset = lasts[-1] + 3
        batches = [memoryview(bytes(size)) for size in chunk]
        chunks.append((Rebuilt(batches, lasts, sum(chunk)), offset))
    return chunks


def naive(sizes: list[list[int]], offset: int, bytes_max: int) -> tuple[int, int]:
    """(bytes, position) of batches one by one."""
    taken, position = 0, offset
    for rebuilt, stop in chunks_of(sizes):
        for batch, last in zip(rebuilt.batches, rebuilt.lasts, strict=True):
            if last < position:
                continue
            if taken and taken + len(batch) > bytes_max:
                return taken, position
            taken, position = taken + len(batch), last + 1
        position = max(position, stop)
        if taken >= bytes_max:
            return taken, position
    return taken, position


@given(st.lists(SIZES, min_size=1, max_size=4), st.data(), st.integers(1, 200))
def test_takes_what_batches_one_by_one_would(
    sizes: list[list[int]], data: st.DataObject, bytes_max: int
) -> None:
    chunks = chunks_of(sizes)
    offset = data.draw(st.integers(0, chunks[-1][1] - 3))
    taken = Taken(offset, bytes_max)
    for rebuilt, stop in chunks:
        if stop > offset and not taken.add(rebuilt, stop):
            break
    assert (taken.size_bytes, taken.position) == naive(sizes, offset, bytes_max)
    assert sum(map(len, taken.batches)) == taken.size_bytes > 0
