"""A cluster is cut into chunks that are small, whatever its owner put into it."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import ChunkTooLarge
from lakehouse.files import chunks, reader
from lakehouse.files.chunks import Chunk, Source, plan
from lakehouse.files.footers import Footers
from lakehouse.files.reader import TableReader
from tests.support.tables import rows, write_file

FAR = 10**12
SHUFFLED = random.Random(7).sample(range(3_000), 3_000)
WANTED = 100


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row group may have and still be read whole."""
    monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 2 * WANTED)
    monkeypatch.setattr(chunks, "ROW_GROUP_ROWS", WANTED)


def planned(root: Path, *files: list[int]) -> tuple[list[Chunk], list[list[int]]]:
    """The chunks of these files, each of one row group, and the offsets in each."""
    paths = [
        str(root / write_file(str(root), f"f{n}", rows(0, file), 10_000).path)
        for n, file in enumerate(files)
    ]
    found = plan([Source(path) for path in paths], Footers())
    one = TableReader()
    return found, [one.read(chunk)["offset"].to_pylist() for chunk in found]


def assert_in_order(files: list[list[int]], found: list[list[int]]) -> None:
    flat = [offset for part in found for offset in part]
    assert flat == sorted({offset for file in files for offset in file})


@pytest.mark.parametrize(
    "files",
    [
        [list(range(3_000))],
        [SHUFFLED[:1_500], SHUFFLED[1_500:]],
        [[*range(3_000), FAR]],
        [[-FAR, *range(3_000)]],
        [[*range(0, 3_000, 2), FAR], [*range(1, 3_000, 2)]],
        [[*range(1_500), *range(FAR, FAR + 1_500)]],
        [[7] * 30 + list(range(3_000))],
    ],
    ids=["sorted", "shuffled", "above", "below", "two files", "two heaps", "repeated"],
)
def test_no_chunk_holds_many_rows_and_none_is_lost(
    tmp_path: Path, files: list[list[int]]
) -> None:
    found, offsets = planned(tmp_path, *files)
    assert_in_order(files, offsets)
    assert max(map(len, offsets)) <= 2 * WANTED
    assert len(found) <= 2 * sum(map(len, files)) / WANTED
    bounds = np.array([chunk[:2] for chunk in found])
    assert (bounds[1:, 0] > bounds[:-1, 1]).all()


@pytest.mark.parametrize("small_first", [0, 100])
def test_rows_that_the_file_has_once_count_as_what_they_take(
    tmp_path: Path, small_first: int
) -> None:
    """Megabytes of a file were a gigabyte of memory, or rows that nobody was given."""
    count, size = 2 * WANTED, 900_000
    indices = [int(n >= small_first) for n in range(count)]
    repeated = pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32()), pa.array([b"", bytes(size)])
    )
    written = rows(0, range(count))
    at = written.schema.get_field_index("value")
    path = str(tmp_path / "repeated.parquet")
    pq.write_table(written.set_column(at, "value", repeated), path, store_schema=False)
    planned, one = plan([Source(path)], Footers()), TableReader()
    last = -1
    for number, chunk in enumerate(planned):
        assert (chunk.first_offset, chunk.is_whole) == (last + 1, False)
        last = chunk.last_offset
        if number < 3:
            assert one.read(chunk).nbytes < 2 * chunks.WINDOW_BYTES
    assert last == count - 1


def test_rows_of_many_row_groups_that_are_too_large_together_are_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "ROWS_BYTES_MAX", 3_000)
    files = [list(range(n, 400, 4)) for n in range(4)]
    paths = [
        str(tmp_path / write_file(str(tmp_path), f"f{n}", rows(0, file)).path)
        for n, file in enumerate(files)
    ]
    found = read_in_parts(plan([Source(path) for path in paths], Footers()))
    assert_in_order(files, found)
    assert len(found) > 10


def read_in_parts(planned: list[Chunk]) -> list[list[int]]:
    """The offsets of these chunks, split as the broker does."""
    waiting, one = list(reversed(planned)), TableReader()
    found: list[list[int]] = []
    while waiting:
        chunk = waiting.pop()
        try:
            found.append(one.read(chunk)["offset"].to_pylist())
        except ChunkTooLarge as error:
            rest = chunk._replace(first_offset=error.fits + 1, is_whole=False)
            waiting += [rest, chunk._replace(last_offset=error.fits, is_whole=False)]
    return found


def test_who_reads_a_row_group_of_unknown_weight_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer began with a dictionary, and gave that up."""
    monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10_000)
    monkeypatch.setattr(reader, "WHOLE_BYTES_MAX", 1_000_000)
    count = 1_500
    made = rows(0, range(count))
    at = made.schema.get_field_index("value")
    values = pa.array([b"%5d" % n * 600 for n in range(count)], pa.binary())
    path = str(tmp_path / "given up.parquet")
    pq.write_table(made.set_column(at, "value", values), path)
    footers = Footers()
    [group] = footers.get(path).groups
    assert group.is_guess
    [chunk] = plan([Source(path)], footers)
    assert chunk.is_whole
    found = read_in_parts([chunk])
    assert_in_order([list(range(count))], found)
    assert len(found) > 1
