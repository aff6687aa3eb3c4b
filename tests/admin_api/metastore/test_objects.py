"""A table is described as Spark's own tables are, a view as Hive's."""

from typing import Any

from admin_api.metastore import objects
from admin_api.metastore.objects import Column
from admin_api.metastore.thrift import STRUCT, field
from tests.support.metastore import asked, taken_apart


def described(value: bytes) -> Any:
    return taken_apart(asked("x", field(STRUCT, 1, value)))[1][1]


def test_a_table_says_where_it_lies_and_that_delta_reads_it() -> None:
    found = described(objects.delta_table("lakelog", "a.b", "/a place/ü", "of a.b"))
    assert (found[1], found[2], found[12]) == (b"a.b", b"lakelog", b"EXTERNAL_TABLE")
    place = "file:/a place/ü".encode()
    assert found[7][2] == place
    assert dict(found[7][7][3])[b"path"] == place
    said = dict(found[9])
    assert said[b"spark.sql.sources.provider"] == b"delta"
    assert (said[b"EXTERNAL"], said[b"comment"]) == (b"TRUE", b"of a.b")
    assert found[7][1] == []
    assert 10 not in found


def test_a_view_is_its_text_and_its_columns() -> None:
    columns = [Column("n", "bigint", "how many")]
    found = described(objects.view("lakelog", "tables", "SELECT 1", columns, "all"))
    assert (found[10], found[11], found[12]) == (b"SELECT 1",) * 2 + (b"VIRTUAL_VIEW",)
    assert found[7][1] == [{1: b"n", 2: b"bigint", 3: b"how many"}]
    assert 2 not in found[7]  # an empty place is none to Spark


def test_a_database_lies_where_nobody_can_make_anything() -> None:
    found = described(objects.database("lakelog", "all"))
    assert (found[1], found[2]) == (b"lakelog", b"all")
    assert found[3] == b"the-catalog-of-lakelog-is-only-read:/"
