"""Footers are read as Arrow reads them, and a damaged one is an error, no more."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.footers import Footers
from lakehouse.files.parquet_footer import FOOTER_BYTES_MAX, read_groups
from lakehouse.files.repeated import open_parquet
from tests.support.tables import rows

EVERY = 23
"""Of so many bits of a footer one is flipped."""
EACH = 64
"""Of its first bits each one: of which kind its lists are, and how long."""
FLIPS = """
import sys
from pathlib import Path
from lakehouse.errors import LakehouseError
from lakehouse.files.footers import Footers
from lakehouse.files.chunks import Source, plan
from lakehouse.files.reader import TableReader

path, every, each = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
whole = path.read_bytes()
footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
begin, end = 8 * footer, 8 * len(whole)

def read():
    chunks = plan([Source(str(path))], Footers())
    return [TableReader().read(chunk).to_pylist() for chunk in chunks], [
        chunk[:2] for chunk in chunks
    ]

before, other = read(), []
for bit in (*range(begin, begin + each), *range(begin + each, end, every)):
    at = bit // 8
    flipped = whole[at] ^ (1 << bit % 8)
    path.write_bytes(whole[:at] + bytes([flipped]) + whole[at + 1 :])
    try:
        if read() != before:
            other.append(bit - 8 * footer)
    except LakehouseError:
        continue
print(other)
"""


def by_arrow(path: Path) -> list[object]:
    """The same, of a footer that is whole."""
    metadata, found = pq.read_metadata(path), list[object]()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = [group.column(n) for n in range(group.num_columns)]
        found.append((
            [(c.path_in_schema, c.num_values, c.total_uncompressed_size,
              c.total_compressed_size, c.has_dictionary_page) for c in columns],
            group.num_rows, group.total_byte_size,
        ))  # fmt: skip
    return found


def by_us(path: Path) -> list[object]:
    return [
        ([(c.path, c.values, c.bytes, c.compressed, c.has_dictionary)
          for c in group.columns], group.rows, group.bytes)
        for group in read_groups(str(path))
    ]  # fmt: skip


@pytest.mark.parametrize("row_groups", [1, 7])
@pytest.mark.parametrize("statistics", [True, False, ["timestamp"]])
def test_a_footer_says_what_arrow_reads_in_it(
    tmp_path: Path, row_groups: int, statistics: bool | list[str]
) -> None:
    path, table = tmp_path / "f.parquet", rows(0, range(210))
    more = pa.array([{"a": [1.5], "m": [("k", n)]} for n in range(210)], pa.struct(
        [("a", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int16()))]
    ))  # fmt: skip
    pq.write_table(
        table.append_column("theirs", more), path,
        row_group_size=210 // row_groups, write_statistics=statistics,
        use_dictionary=["key"],  # type: ignore[arg-type]
        store_schema=False,
    )  # fmt: skip
    assert by_us(path) == by_arrow(path)
    bounds = {c.path: c.bounds for c in read_groups(str(path))[-1].columns}
    first = 210 - 210 // row_groups
    assert bounds["offset"] == ((first, 209) if statistics is True else None)
    assert (bounds["timestamp"] is None) == (statistics is False)
    assert bounds["value"] is None


def test_what_has_no_footer_and_what_is_gone_is_said(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    with pytest.raises(FileVanished):
        read_groups(str(path))
    for content in (b"", b"PAR1", b"\x00" * 20, b"x" * 9 + b"\xff\xff\xff\x7fPAR1"):
        path.write_bytes(content)
        with pytest.raises(TableUnreadable):
            read_groups(str(path))


LONG = bytes([0x49, 0x1C, 0x36]) + b"\xff" * 100_000 + b"\x01\x00\x00"
"""One row group, of as many rows as fit into a hundred kilobytes."""


def test_an_integer_without_an_end_is_damage(tmp_path: Path) -> None:
    """The merger asks without Arrow, and all tables wait for it: the time would be the
    square of the bytes, minutes for three megabytes."""
    path = tmp_path / "f.parquet"
    path.write_bytes(b"PAR1" + LONG + len(LONG).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(TableUnreadable, match="more than ten bytes"):
        read_groups(str(path))


@pytest.mark.parametrize("read", [read_groups, open_parquet, Footers().get])
def test_a_footer_of_gigabytes_is_refused_before_it_takes_them(
    tmp_path: Path, read: Callable[[str], object]
) -> None:
    """A sparse file of its owner's takes no disk, and its footer took the memory."""
    path = tmp_path / "f.parquet"
    with path.open("wb") as file:
        file.truncate(FOOTER_BYTES_MAX + 100)
        file.seek(0, os.SEEK_END)
        file.write((FOOTER_BYTES_MAX + 1).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(TableUnreadable, match=f"would be of {FOOTER_BYTES_MAX + 1} by"):
        read(str(path))


def test_a_flipped_bit_of_a_footer_ends_no_process_and_changes_no_row(
    tmp_path: Path,
) -> None:
    """Of a file of ours. Arrow's metadata, asked from Python, ends the process for one
    bit in three hundred; and one in fifty made other rows of them, or fewer."""
    path = tmp_path / f"{0:020d}-{120:020d}-138b-1a20acdf693-2-1.parquet"
    pq.write_table(
        rows(0, range(120)), path, row_group_size=60, write_page_checksum=True,
        use_dictionary=["topic"],  # type: ignore[arg-type]
        write_statistics=["partition", "offset", "timestamp"],
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, str(path), str(EVERY), str(EACH)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr[-2_000:]
