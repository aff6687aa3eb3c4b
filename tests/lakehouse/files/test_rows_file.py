"""A file whose columns are called otherwise gives the rows that Spark reads of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import TableUnreadable
from lakehouse.files import chunks
from lakehouse.files.chunks import Source
from lakehouse.files.footers import Footers
from lakehouse.files.reader import TableReader
from lakehouse.files.repeated import open_parquet
from lakehouse.schema import READ, WRITE
from tests.support.placed import Row, rows_of, table_of, taken, write_like_ours
from tests.support.spelling import OTHERWISE, otherwise
from tests.support.tables import rows

ROWS = rows(0, [*range(70, 100), *range(70)])


def read(path: Path) -> Any:
    found = chunks.plan((Source(str(path)),), Footers())
    return pa.concat_tables([TableReader().read(chunk) for chunk in found])


@pytest.mark.parametrize("names", [*([name] for name in OTHERWISE), OTHERWISE.keys()])
@pytest.mark.parametrize("is_large", [False, True])
def test_records_are_those_of_the_same_file_by_our_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Any, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(chunks, "WHOLE_ROWS_MAX", 10)
    table = otherwise(ROWS, names).append_column("Mine", pa.array(range(100)))
    pq.write_table(ROWS, tmp_path / "ours", row_group_size=60)
    pq.write_table(table, tmp_path / "theirs", row_group_size=60)
    assert read(tmp_path / "theirs") == read(tmp_path / "ours")
    ours, theirs = (
        [group._replace(bytes=0, compressed=0, compressed_keys=0, layout=None)
         for group in Footers().get(str(tmp_path / name)).groups]
        for name in ("ours", "theirs")
    )  # fmt: skip
    assert theirs == ours
    with open_parquet(str(tmp_path / "theirs")) as file:
        assert file.schema_arrow.names == [*WRITE.names, "Mine"]
        assert file.read().select(READ).cast(ROWS.select(READ).schema) == ROWS.select(
            READ
        )
        assert file.read(columns=["key"]).column_names == ["key"]


def test_headers_are_found_whatever_list_and_fields_they_stand_in(
    tmp_path: Path,
) -> None:
    pair = pa.struct(
        [("more", pa.int32()), ("VALUE", pa.binary()), ("Key", pa.string())]
    )
    said = [None, [], [{"more": 1, "VALUE": b"v", "Key": "k"}, None], [{"Key": None}]]
    wanted = [
        None,
        [],
        [{"key": "k", "value": b"v"}, None],
        [{"key": None, "value": None}],
    ]
    for kind in (pa.list_(pair), pa.large_list(pair)):
        table = rows(0, range(4)).drop_columns("headers")
        table = table.append_column("headers", pa.array(said, kind))
        pq.write_table(table, tmp_path / "theirs")
        assert read(tmp_path / "theirs")["headers"].to_pylist() == wanted


def test_a_file_in_our_form_by_other_names_has_places_as_well(tmp_path: Path) -> None:
    found: list[Row] = [(n, n, 0, b"k", b"v" * 99) for n in range(50)]
    table = table_of(found)
    write_like_ours(
        tmp_path / "f.parquet",
        otherwise(table, OTHERWISE.keys() - {"headers"}),
        use_dictionary=["PARTITION", "timestamptype", "Topic", "KEY"],
        column_encoding=dict.fromkeys(("Offset", "TIMESTAMP"), "DELTA_BINARY_PACKED"),
        write_statistics=True,
    )
    [chunk] = chunks.plan((Source(str(tmp_path / "f.parquet")),), Footers())
    assert TableReader().read_places(chunk, taken, rows_of) == [found]


def test_which_of_two_columns_is_meant_is_asked_and_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    keys = ROWS["key"]
    pq.write_table(ROWS.append_column("KEY", ROWS["value"]), path)
    by_offset = ROWS.take(pc.sort_indices(ROWS["offset"]))
    assert read(path)["key"].to_pylist() == by_offset["key"].to_pylist()
    two = ROWS.rename_columns(["Key" if n == "key" else n for n in ROWS.column_names])
    pq.write_table(two.append_column("KEY", keys), path)
    with pytest.raises(
        TableUnreadable, match="has the columns Key and KEY, and none is"
    ):
        read(path)
    pair = pa.list_(pa.struct([("Key", pa.string()), ("KEY", pa.string())]))
    pq.write_table(
        ROWS.drop_columns("headers").append_column("headers", pa.nulls(100, pair)), path
    )
    with pytest.raises(TableUnreadable, match=r"f\.parquet has the columns K"):
        read(path)


def test_what_is_left_out_is_null_as_the_table_has_it(tmp_path: Path) -> None:
    pq.write_table(
        otherwise(ROWS, ["key"]).drop_columns("value"), tmp_path / "f.parquet"
    )
    found = read(tmp_path / "f.parquet")
    assert found["value"].null_count == 100
    assert found["key"].null_count == ROWS["key"].null_count
