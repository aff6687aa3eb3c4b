"""Code that opens a table, for each engine. Pure.

A path is written as each language wants it, whatever is in it. Each piece shows the
last ten records by offset as `rows`: keys and values are bytes, SQL casts them to text.
"""

from collections.abc import Collection
from urllib.parse import quote

from admin_api.snippets.schemas import Snippet

_SQL = """\
SELECT partition, offset, timestamp,
       CAST(key AS STRING) AS key, CAST(value AS STRING) AS value
FROM {table}
ORDER BY offset DESC
LIMIT 10"""

_PYSPARK = """\
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

builder = (
    SparkSession.builder
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
        "spark.sql.catalog.spark_catalog",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    )
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
records = spark.read.format("delta").load({path})
rows = records.orderBy("offset", ascending=False).limit(10)
rows.show()"""

_DELTALAKE = """\
from deltalake import DeltaTable

table = DeltaTable({path})
rows = table.to_pyarrow_table().sort_by([("offset", "descending")]).slice(0, 10)
print(rows)"""

_POLARS = """\
import polars as pl

records = pl.scan_delta({path})
rows = records.sort("offset", descending=True).head(10).collect()
print(rows)"""

_POLARS_ANYWHERE = """\
import polars as pl
from deltalake import DeltaTable

records = pl.scan_pyarrow_dataset(DeltaTable({path}).to_pyarrow_dataset())
rows = records.sort("offset", descending=True).head(10).collect()
print(rows)"""
"""Polars' own way finds no file below a path that a URL writes differently."""

_DUCKDB = """\
import duckdb
from deltalake import DeltaTable

records = DeltaTable({path}).to_pyarrow_dataset()
rows = duckdb.sql('''
    SELECT "partition", "offset", "timestamp",
           CAST("key" AS VARCHAR) AS "key", CAST("value" AS VARCHAR) AS "value"
    FROM records
    ORDER BY "offset" DESC
    LIMIT 10
''')
print(rows)"""


_DELTALAKE_VECTORS = """\
import pyarrow
from deltalake import DeltaTable, QueryBuilder

query = QueryBuilder().register("records", DeltaTable({path}))
found = query.execute('SELECT * FROM records ORDER BY "offset" DESC LIMIT 10')
rows = pyarrow.table(found.read_all())
print(rows)"""

_POLARS_VECTORS_ANYWHERE = """\
import polars as pl
from deltalake import DeltaTable, QueryBuilder

query = QueryBuilder().register("records", DeltaTable({path}))
found = query.execute('SELECT * FROM records ORDER BY "offset" DESC LIMIT 10')
rows = pl.DataFrame(found.read_all())
print(rows)"""

_DUCKDB_VECTORS = """\
import duckdb
import pyarrow
from deltalake import DeltaTable, QueryBuilder

query = QueryBuilder().register("records", DeltaTable({path}))
records = pyarrow.table(query.execute("SELECT * FROM records").read_all())
rows = duckdb.sql('''
    SELECT "partition", "offset", "timestamp",
           CAST("key" AS VARCHAR) AS "key", CAST("value" AS VARCHAR) AS "value"
    FROM records
    ORDER BY "offset" DESC
    LIMIT 10
''')
print(rows)"""

VECTORS = "deletionVectors"
_HAS_VECTORS = "This table has deletion vectors"
_NOTES = {
    "deltalake": f"{_HAS_VECTORS}: DeltaTable's to_pyarrow_table, to_pyarrow_dataset "
    "and to_pandas refuse it, its QueryBuilder reads it.",
    "polars": f"{_HAS_VECTORS}: scan_delta reads it, but not with use_pyarrow.",
    "duckdb": f"{_HAS_VECTORS}: DeltaTable's to_pyarrow_dataset refuses it. What its "
    "QueryBuilder finds is in memory: name the columns and rows that you want there.",
}


def snippets(path: str, features: Collection[str] = ()) -> list[Snippet]:
    """For the table in the directory ``path``, one for each engine; ``features`` are
    those that its protocol asks of readers."""
    quoted = repr(path)
    table = f"delta.`{path.replace('`', '``')}`"
    codes = _codes(is_plain=quote(path) == path, has_vectors=VECTORS in features)
    return [
        Snippet(
            engine=engine,
            language="sql" if engine == "spark-sql" else "python",
            requires=requires,
            code=code.format(path=quoted, table=table),
            note=_note(engine, features),
        )
        for engine, requires, code in codes
    ]


def _codes(*, is_plain: bool, has_vectors: bool) -> list[tuple[str, str, str]]:
    """Engine, what it requires, and its code."""
    polars = _POLARS_VECTORS_ANYWHERE if has_vectors else _POLARS_ANYWHERE
    return [
        ("spark-sql", "Spark 4 with Delta", _SQL),
        ("pyspark", "delta-spark", _PYSPARK),
        (
            "deltalake",
            "deltalake, pyarrow",
            _DELTALAKE_VECTORS if has_vectors else _DELTALAKE,
        ),
        ("polars", "polars, deltalake", _POLARS if is_plain else polars),
        (
            "duckdb",
            "duckdb, deltalake, pyarrow",
            _DUCKDB_VECTORS if has_vectors else _DUCKDB,
        ),
    ]


def _note(engine: str, features: Collection[str]) -> str | None:
    notes = [_NOTES[engine]] if VECTORS in features and engine in _NOTES else []
    others = [name for name in features if name != VECTORS]
    if others:
        notes.append(f"A reader of this table has to know {', '.join(others)}.")
    return " ".join(notes) or None
