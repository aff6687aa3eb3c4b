"""Keys and values that a file has once are weighed as what its rows take."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.files.footers import Footers
from lakehouse.files.parquet_footer import read_groups
from lakehouse.files.repeated import SURE_BYTES, lengths_of, once_of
from tests.support.tables import rows


@pytest.mark.parametrize(
    "values", ["few", "first rows small", "null", "empty", "fallen back"]
)
@pytest.mark.parametrize("row_groups", [1, 3])
def test_a_row_group_is_weighed_by_what_its_rows_take(
    tmp_path: Path, values: str, row_groups: int
) -> None:
    """Whatever the file has once, and whichever rows have it."""
    made: dict[str, list[bytes | None]] = {
        "few": [bytes([n % 3]) * 20_000 for n in range(900)],
        "first rows small": [b""] * 600 + [b"x" * 50_000] * 300,
        "null": [None, b"y" * 50_000] * 450,
        "empty": [None] * 899 + [b""],
        "fallen back": [b"%6d" % n * 1_000 for n in range(900)],
    }
    table = rows(0, range(900))
    for name in ("key", "value"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(made[values], pa.binary()))
    path = str(tmp_path / "f.parquet")
    pq.write_table(table, path, row_group_size=900 // row_groups, store_schema=False)
    for number, group in enumerate(Footers().get(path).groups):
        real = pq.ParquetFile(path).read_row_group(number, columns=["key", "value"])
        taken = sum(len(v) for c in real.columns for v in c.to_pylist() if v)
        assert taken <= group.bytes <= 2 * taken + 2 * SURE_BYTES


def test_a_column_whose_writer_gave_its_dictionary_up_is_not_read_as_one(
    tmp_path: Path,
) -> None:
    """Reading it so takes twenty times as long; its weight is a guess."""
    table, path = rows(0, range(1_000)), str(tmp_path / "f.parquet")
    at = table.schema.get_field_index("value")
    for values, is_guess in (([b"v" * 9_000] * 1_000, False), (None, True)):
        made = values or [b"%9d" % n * 1_000 for n in range(1_000)]
        pq.write_table(table.set_column(at, "value", pa.array(made)), path)
        [group] = Footers().get(path).groups
        [facts] = read_groups(path)
        once = once_of(facts)
        assert (group.is_guess, at in once) == (is_guess, not is_guess)


def test_each_row_is_as_long_as_what_it_has_of_all_dictionaries() -> None:
    one = pa.array([b"abc", None, b"", b"abc"]).dictionary_encode()
    other = pa.array(["x", "yy", None, "yy"]).dictionary_encode()
    plain = pa.array([b"not counted"] * 4)
    assert lengths_of(pa.table([one, plain, other], ["a", "b", "c"])).tolist() == [
        4,
        2,
        0,
        5,
    ]
    assert lengths_of(pa.table([plain], ["a"])) is None
