"""``lakelog.tables``: how far each partition is, as a view that holds its own rows.

The problem: a metastore has descriptions and no rows, and whoever asks how fresh a
table is wants the answer of now. The idea: the view's text is made when it is asked
for, and has the rows in it, as JSON that Spark takes apart; base64 has no character
that a session could read in another way. So a query sees all partitions as they were
when it was analyzed. The price: all of them, whatever it filters.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from admin_api.metastore.objects import Column
from admin_api.tables.survey import Surveyed, partitions_of, summary

COMMENT: Final = "How far the tables of the topics are: a row for each partition"
COLUMNS: Final = (
    Column("topic", "string", "Name of the topic"),
    Column("partition", "int", "Number of its partition"),
    Column("table_name", "string", "What the table is called in SQL; null: none yet"),
    Column("location", "string", "Directory of the table"),
    Column(
        "version", "bigint", "Delta version of the table; null: none, or unreadable"
    ),
    Column(
        "rows", "bigint", "Rows of the partition; null: its files do not all say it"
    ),
    Column("files", "bigint", "Parquet files of the partition"),
    Column("bytes", "bigint", "Bytes of these files"),
    Column("log_start", "bigint", "First offset that consumers can read"),
    Column("table_end", "bigint", "First offset not in the table; null: unreadable"),
    Column(
        "last_stable_offset",
        "bigint",
        "First offset that may be of an open transaction; null: the broker is silent",
    ),
    Column("high_watermark", "bigint", "End of the log; null: the broker is silent"),
    Column(
        "lag_records",
        "bigint",
        "Offsets up to the last stable one that are not in the table; null: unknown",
    ),
    Column(
        "lag_seconds",
        "double",
        "Age of the oldest record that waits for the table; null: nobody says it",
    ),
    Column(
        "problem", "string", "What is wrong with the table, or keeps records from it"
    ),
)


def query_of(tables: Sequence[tuple[str | None, Surveyed]]) -> str:
    """The text of the view: each table with its name in SQL."""
    rows = [row for name, one in tables for row in _rows(name, one)]
    packed = base64.b64encode(json.dumps(rows).encode()).decode()
    return (
        f"SELECT inline(from_json(CAST(unbase64('{packed}') AS STRING), "
        f"'ARRAY<STRUCT<{_fields()}>>'))"
    )


def _fields() -> str:
    return ", ".join(f"`{one.name}`: {one.type}" for one in COLUMNS)


def _rows(name: str | None, one: Surveyed) -> list[dict[str, Any]]:
    whole = summary("", one)
    compaction = whole.compaction
    problem = whole.problem or (compaction.error if compaction else None)
    shared = {
        "topic": whole.topic_name,
        "table_name": name,
        "location": whole.location,
        "version": whole.version,
        "problem": problem,
    }
    return [
        shared
        | {
            "partition": part.partition_id,
            "rows": part.rows,
            "files": part.files,
            "bytes": part.bytes,
            "log_start": part.log_start,
            "table_end": part.table_end,
            "last_stable_offset": part.last_stable_offset,
            "high_watermark": part.high_watermark,
            "lag_records": part.lag_records,
            "lag_seconds": part.lag_seconds,
        }
        for part in partitions_of(one)
    ]
