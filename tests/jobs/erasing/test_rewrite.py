"""A file without some rows: the others in order, as they were."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jobs.erasing.rewrite import without
from lakehouse.log.actions import DataFile
from lakehouse.log.delta_log import load
from lakehouse.owners_columns import all_columns
from tests.support.tables import Writer

NUMBERS = count()


def rewritten(writer: Writer, file: DataFile, gone: list[int], spill: Path) -> Any:
    metadata = load(writer.path).metadata
    assert metadata is not None
    columns = all_columns(metadata.schema_string)
    return without(
        writer.path, file, np.array(gone, np.int64), columns,
        attempt=f"1-2-e{next(NUMBERS):x}", spill=str(spill),
    )  # fmt: skip


def only_file(writer: Writer) -> DataFile:
    [file] = load(writer.path).files.values()
    return file


@pytest.mark.parametrize("is_bounded", [True, False])
def test_an_owners_file_in_no_order_is_written_in_order(
    tmp_path: Path, *, is_bounded: bool
) -> None:
    writer = Writer(str(tmp_path))
    order = [*range(300, 600), *range(300)]
    writer.add(0, 0, 600, order=order)
    file = only_file(writer)
    if not is_bounded:
        file = file._replace(last_offset=(1 << 63) - 1)
    written = rewritten(writer, file, [0, 299, 450, 10_000], tmp_path)
    rows = pq.read_table(Path(writer.path) / written.path, partitioning=None)
    offsets = rows.column("offset").to_pylist()
    assert offsets == [o for o in range(600) if o not in (0, 299, 450)]
    assert (written.rows, written.first_offset, written.last_offset) == (597, 1, 599)
    old = pq.read_table(Path(writer.path) / file.path, partitioning=None)
    kept = {row["offset"]: row for row in old.to_pylist()}
    assert all(kept[row["offset"]] == row for row in rows.to_pylist())


def test_nothing_is_written_if_nothing_stays(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.add(0, 0, 3)
    before = set(Path(writer.path).rglob("*.parquet"))
    assert rewritten(writer, only_file(writer), [0, 1, 2], tmp_path) is None
    assert set(Path(writer.path).rglob("*.parquet")) == before
