"""Footers are kept within a bound, which is one of memory."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse.errors import TableUnreadable
from lakehouse.files.footers import Footers
from lakehouse.schema import READ
from tests.support.tables import rows

PROGRAM = """
import sys
from lakehouse.files.footers import Footers

def anonymous_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10

kept = [Footers(), Footers()]
[footers.get(sys.argv[1]) for footers in kept]
before = anonymous_bytes()
kept += [Footers() for _ in range(int(sys.argv[2]))]
[footers.get(sys.argv[1]) for footers in kept]
print(anonymous_bytes() - before, sum(footers.size_bytes for footers in kept[2:]))
"""


def written(path: Path, row_groups: int = 1) -> str:
    pq.write_table(rows(0, range(200)), path, row_group_size=200 // row_groups)
    return str(path)


@pytest.mark.parametrize(("row_groups", "count"), [(1, 1_000), (20, 200)])
def test_a_footer_is_weighed_by_the_memory_that_it_takes(
    tmp_path: Path, row_groups: int, count: int
) -> None:
    path = written(tmp_path / "f.parquet", row_groups)
    command = [sys.executable, "-c", PROGRAM, path, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    taken, told = map(int, done.stdout.split())
    assert 0.5 * taken < told < 2 * taken


def test_the_least_recently_used_are_let_go_above_the_bound(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{n}.parquet") for n in range(4)]
    one = Footers()
    first = one.get(paths[0])
    footers = Footers(int(one.size_bytes * 2.5))
    assert footers.get(paths[0]) is not first
    kept = footers.get(paths[0])
    footers.get(paths[1])
    assert footers.get(paths[0]) is kept
    footers.get(paths[2])
    assert footers.size_bytes == 2 * one.size_bytes
    assert footers.get(paths[0]) is kept
    footers.get(paths[3])
    footers.get(paths[1])
    assert footers.get(paths[0]) is not kept


def test_a_footer_that_is_let_go_is_gone_at_once(tmp_path: Path) -> None:
    """The broker looks for garbage seldom: a cycle would stay for hours."""
    paths = [written(tmp_path / f"{n}.parquet", 3) for n in range(2)]
    footers = Footers(1)
    gc.disable()
    try:
        with footers.open(paths[0]) as file:
            file.read_row_group(1, columns=["offset"], use_threads=False)
        gone = weakref.ref(footers.get(paths[0]).metadata)
        assert gone() is not None
        del file
        footers.get(paths[1])
        assert gone() is None
    finally:
        gc.enable()


def test_what_was_dropped_is_read_again(tmp_path: Path) -> None:
    path, footers = written(tmp_path / "f.parquet"), Footers()
    dropped = footers.get(path)
    footers.clear()
    assert footers.size_bytes == 0
    assert footers.get(path).groups == dropped.groups
    assert footers.size_bytes > 0


@pytest.mark.parametrize("kind", ["", "-1", "-0-c8-18bcfe56800"])
@pytest.mark.parametrize("column", READ)
def test_a_file_of_ours_whose_column_lost_its_name_is_damaged(
    tmp_path: Path, column: str, kind: str
) -> None:
    """A bit of the footer, which has no checksum; else all of it would be null. Merged
    and cleaned files have all columns, too."""
    name = f"{0:020d}-{200:020d}-138b-1a20acdf693-2{kind}.parquet"
    path = tmp_path / name
    whole = Path(written(path)).read_bytes()
    Footers().get(str(path))
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    named = bytes([len(column)]) + column.encode()
    at = whole.index(named, footer) + len(column)
    other = tmp_path / "an owners.parquet"
    for place in (path, other):
        flipped = whole[at : at + 1][0] ^ 4
        place.write_bytes(whole[:at] + bytes([flipped]) + whole[at + 1 :])
    with pytest.raises(TableUnreadable):
        Footers().get(str(path))
    if column == "value":
        Footers().get(str(other))
