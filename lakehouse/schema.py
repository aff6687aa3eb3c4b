"""The columns of a topic's table, as Arrow sees them.

The problem: queries written for Spark's own Kafka source should run on a topic's table
unchanged, and data skipping should work. The idea: the same names and types as that
source, with the columns that carry statistics first. The price: `key` and `value` stay
raw bytes; whoever wants typed columns casts them.

Importing this module imports pyarrow; a process that must start light imports it late.
"""

from typing import Any, Final

import pyarrow as pa

HEADERS: "pa.ListType[Any]" = pa.list_(
    pa.struct([("key", pa.string()), ("value", pa.binary())])
)

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
    ("topic", pa.string()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", HEADERS),
]

WRITE: pa.Schema = pa.schema(_COLUMNS)
"""What a data file holds, in this physical order. ``headers`` is null when there are
none; ``partition`` is in the file too, so that a file explains itself."""

COMMENTS: Final = {
    "partition": "Number of the topic's partition",
    "offset": "Offset in the partition, each at most once; gaps are transaction "
    "markers, aborted and deleted records",
    "timestamp": "The record's time (whose: timestampType), to the millisecond; "
    "1969-12-31 23:59:59.999 UTC, or null: it has none",
    "timestampType": "0: the producer's time (CreateTime), 1: the broker's "
    "(LogAppendTime)",
    "topic": "Name of the topic",
    "key": "The record's key as it was sent: CAST(key AS STRING) if it is text; null: "
    "it has none",
    "value": "The record's value as it was sent: CAST(value AS STRING) if it is text; "
    "null: a tombstone",
    "headers": "The record's headers, in their order; null: it has none",
}
"""What a new table says of each column, to whoever asks DESCRIBE."""
COMMENTS_BEFORE: Final = frozenset(
    {
        "The record's time (whose: timestampType), to the millisecond; null: it has "
        "none",
    }
)
"""What tables of earlier versions say."""

DESCRIBED: pa.Schema = pa.schema(
    [one.with_metadata({"comment": COMMENTS[one.name]}) for one in WRITE]
)
"""The columns as a table is made. What files hold (``WRITE``) says nothing of them, and
what an owner says of a column later is his: it is never written again."""

READ = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
"""What is needed to rebuild a record."""

PARTITION_COLUMN = "partition"
ROW_GROUP_ROWS = 10_000
"""One reads and decodes in about a millisecond; larger ones make a cold fetch slow,
smaller ones make the footer large."""
COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1
"""Level 1 costs a third of the default's time for a few per cent of size."""
