"""What owners do to tables: each act as SQL, and what is then left of the records.

Twenty records, of offset n and value ``vn``, stand in the table alone, in a file of the
first ten and one of the others, when an act begins. Where records come all the time
there are more (`Moment`). ``{}`` is the table's name.
"""

import shutil
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.support.spark_reader import SparkReader

Records = dict[int, bytes]
BEFORE: Final[Records] = {n: b"v%d" % n for n in range(20)}
PROPERTY: Final = "ALTER TABLE {{}} SET TBLPROPERTIES ('delta.{}' = '{}')"


def _property(name: str, value: str = "true") -> str:
    return PROPERTY.format(name, value)


MAPPED: Final = _property("columnMapping.mode", "name")
VECTORS: Final = _property("enableDeletionVectors")
TRACKED: Final = _property("enableRowTracking")
SUSPENDED: Final = (
    "ALTER TABLE {} SET TBLPROPERTIES "
    "('delta.enableRowTracking' = 'false', 'delta.rowTrackingSuspended' = 'true')"
)
DELETE: Final = "DELETE FROM {} WHERE offset = 3"
UPDATE: Final = "UPDATE {} SET value = CAST('new' AS BINARY) WHERE offset = 3"
UNCHECKED: Final = "SET spark.databricks.delta.{}.enabled = false"

STATEMENTS: Final = {
    "OPTIMIZE": ["OPTIMIZE {}"],
    "OPTIMIZE ZORDER": [
        UNCHECKED.replace("{}", "optimize.zorder.checkStatsCollection"),
        "OPTIMIZE {} ZORDER BY (value)",
    ],
    "VACUUM, nothing retained": [
        DELETE,
        UNCHECKED.replace("{}", "retentionDurationCheck"),
        "SET spark.sql.sources.parallelPartitionDiscovery.parallelism = 2",
        "VACUUM {} RETAIN 0 HOURS",
    ],
    "DELETE": [DELETE],
    "UPDATE": [UPDATE],
    "MERGE with inserts": [
        """MERGE INTO {} t USING (SELECT 3L AS o UNION ALL SELECT 4000L) s
        ON t.offset = s.o WHEN MATCHED THEN UPDATE SET value = CAST('new' AS BINARY)
        WHEN NOT MATCHED THEN INSERT (partition, value)
        VALUES (0, CAST('x' AS BINARY))"""
    ],
    "INSERT where records are to come": [
        """INSERT INTO {} (partition, offset, timestamp, topic)
        VALUES (0, {ahead}, TIMESTAMP'2024-01-01', 'theirs')"""
    ],
    "RESTORE after a DELETE": [DELETE, "RESTORE TABLE {} TO VERSION AS OF {now}"],
    "RESTORE to before a round": ["RESTORE TABLE {} TO VERSION AS OF {half}"],
    "ADD COLUMN": ["ALTER TABLE {} ADD COLUMN theirs STRING"],
    "a column's COMMENT": ["ALTER TABLE {} ALTER COLUMN value COMMENT 'theirs'"],
    "RENAME COLUMN": [MAPPED, "ALTER TABLE {} RENAME COLUMN value TO payload"],
    "RENAME COLUMN, and mapped no more": [
        MAPPED,
        "ALTER TABLE {} RENAME COLUMN value TO payload",
        _property("columnMapping.mode", "none"),
    ],
    "DROP COLUMN": [MAPPED, "ALTER TABLE {} DROP COLUMN headers"],
    "DROP COLUMN of a column of theirs": [
        MAPPED,
        "ALTER TABLE {} ADD COLUMN theirs STRING",
        "ALTER TABLE {} DROP COLUMN theirs",
    ],
    "VARIANT column": ["ALTER TABLE {} ADD COLUMN theirs VARIANT"],
    "deletion vectors": [VECTORS],
    "deletion vectors, and a DELETE": [VECTORS, DELETE],
    "deletion vectors, and an UPDATE": [VECTORS, UPDATE],
    "column mapping": [MAPPED],
    "in-commit timestamps": [_property("enableInCommitTimestamps")],
    "row tracking": [TRACKED],
    "row tracking, and suspended": [TRACKED, SUSPENDED],
    "row tracking, and dropped": [
        TRACKED,
        SUSPENDED,
        "ALTER TABLE {} DROP FEATURE rowTracking",
    ],
    "v2 checkpoints": [_property("checkpointPolicy", "v2")],
    "change data feed": [_property("enableChangeDataFeed")],
    "change data feed, and an UPDATE": [_property("enableChangeDataFeed"), UPDATE],
    "append only": [_property("appendOnly")],
    "CHECK constraint": ["ALTER TABLE {} ADD CONSTRAINT c CHECK (offset >= 0)"],
    "INSERT OVERWRITE": [
        "INSERT OVERWRITE {} SELECT * FROM {} VERSION AS OF {now} WHERE offset < 5"
    ],
    "CREATE OR REPLACE TABLE": [
        "CREATE TABLE replaced USING DELTA LOCATION '{path}'",
        "CREATE OR REPLACE TABLE replaced USING DELTA LOCATION '{path}' AS SELECT 1 x",
        "DROP TABLE replaced",
    ],
    "SHALLOW CLONE of it": ["CREATE TABLE delta.`{path}.clone` SHALLOW CLONE {}"],
    "liquid clustering": ["ALTER TABLE {} CLUSTER BY (value)"],
    "DROP TABLE": [
        "CREATE TABLE dropped USING DELTA LOCATION '{path}'",
        "DROP TABLE dropped",
    ],
}
REMOVED: Final = "rm -rf"
NAMES: Final = (*STATEMENTS, REMOVED)
REFUSED_BY_DELTA: Final = {"liquid clustering"}
VALUE_COLUMN: Final = {
    "RENAME COLUMN": "payload",
    "RENAME COLUMN, and mapped no more": "payload",
}
"""What the column of the values is called afterwards, where not ``value``."""


class Moment(NamedTuple):
    """When an act begins: the table's version with the first ten alone, its version
    now, and an offset that is to come."""

    half: int = 1
    now: int = 2
    ahead: int = 25


def statements(name: str, path: str, moment: Moment) -> Iterator[str]:
    """An act as SQL on the table at ``path``."""
    words = {"path": path, "": f"delta.`{path}`"} | {
        key: str(value) for key, value in moment._asdict().items()
    }
    for statement in STATEMENTS[name]:
        for word, meant in words.items():
            statement = statement.replace(f"{{{word}}}", meant)
        yield statement


def act(name: str, analyst: SparkReader, path: str) -> str | None:
    """Do it; why Delta refused it, else None."""
    if name == REMOVED:
        shutil.rmtree(path)
        return None
    for sql in statements(name, path, Moment()):
        try:
            analyst.ask(sql)
        except AssertionError as error:
            return str(error)
    return None
