"""Code that opens a table, for each engine. Pure.

A path is written as each language wants it, whatever is in it. Each piece shows the
last ten records by offset as `rows`: keys and values are bytes, SQL casts them to text.
"""

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


def snippets(path: str) -> list[Snippet]:
    """For the table in the directory ``path``, one for each engine."""
    quoted = repr(path)
    polars = _POLARS if quote(path) == path else _POLARS_ANYWHERE
    table = f"delta.`{path.replace('`', '``')}`"
    return [
        _snippet("spark-sql", "sql", "Spark 4 with Delta", _SQL.format(table=table)),
        _snippet("pyspark", "python", "delta-spark", _PYSPARK.format(path=quoted)),
        _snippet(
            "deltalake", "python", "deltalake, pyarrow", _DELTALAKE.format(path=quoted)
        ),
        _snippet("polars", "python", "polars, deltalake", polars.format(path=quoted)),
        _snippet(
            "duckdb",
            "python",
            "duckdb, deltalake, pyarrow",
            _DUCKDB.format(path=quoted),
        ),
    ]


def _snippet(engine: str, language: str, requires: str, code: str) -> Snippet:
    return Snippet(engine=engine, language=language, requires=requires, code=code)
