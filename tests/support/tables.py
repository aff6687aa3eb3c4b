"""Small real tables: rows with known contents, written and committed as a round is."""

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.log.commit import Committed, commit_files, create_table
from lakehouse.new_file import NewFile, partition_directory
from lakehouse.schema import HEADERS, WRITE
from tests.support.placed import write_like_ours

TOPIC_ID = "0123456789abcdef0123456789abcdef"
FIRST_MS = 1_700_000_000_000


def rows(partition: int, offsets: Sequence[int], topic: str = "orders") -> pa.Table:
    """Rows whose contents follow from their offset, every odd shape included.

    Key null at each third, value null at each seventh, empty at each eleventh; headers
    null, or with duplicates and a null value; one millisecond between offsets.
    """
    count = len(offsets)
    return pa.table(
        {
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(
                [(FIRST_MS + o) * 1000 for o in offsets], pa.timestamp("us", "UTC")
            ),
            "timestampType": pa.array([o % 2 for o in offsets], pa.int32()),
            "topic": pa.array([topic] * count, pa.string()),
            "key": pa.array(
                [None if o % 3 == 0 else f"key-{o}".encode() for o in offsets]
            ).cast(pa.binary()),
            "value": pa.array([value(o) for o in offsets]).cast(pa.binary()),
            "headers": pa.array([headers(o) for o in offsets], HEADERS),
        },
        schema=WRITE,
    )


def value(offset: int) -> bytes | None:
    if offset % 7 == 0:
        return None
    return b"" if offset % 11 == 0 else f"value-{offset}".encode() * 3


def headers(offset: int) -> list[dict[str, object]] | None:
    if offset % 2:
        return None
    return [
        {"key": "trace", "value": str(offset).encode()},
        {"key": "trace", "value": None},
        {"key": "", "value": b""},
    ]


def write_file(
    root: str, name: str, table: pa.Table, row_group_rows: int = 100
) -> NewFile:
    """Write one data file of one partition, as the compactor's workers do."""
    partition = table.column("partition")[0].as_py()
    directory = os.path.join(root, partition_directory(partition))
    os.makedirs(directory, exist_ok=True)
    relative = f"{partition_directory(partition)}/{name}.parquet"
    pq.write_table(
        table,
        os.path.join(root, relative),
        compression="zstd",
        compression_level=1,
        row_group_size=row_group_rows,
    )
    return describe_file(root, relative, partition)


def describe_file(root: str, path: str, partition: int) -> NewFile:
    """Describe a written file from its Parquet footer; blocks.

    The file must have rows, and statistics for offset and timestamp in each row group.
    Raises ValueError when it has not.
    """
    full = os.path.join(root, path)
    footer = pq.read_metadata(full)
    offsets = _bounds(footer, "offset", full)
    timestamps = _bounds(footer, "timestamp", full)
    status = os.stat(full)
    return NewFile(
        path=path,
        partition=partition,
        size=status.st_size,
        rows=footer.num_rows,
        first_offset=offsets[0],
        last_offset=offsets[1],
        timestamp_min_ms=timestamps[0] // 1000,
        timestamp_max_ms=timestamps[1] // 1000,
        modified_ms=status.st_mtime_ns // 1_000_000,
    )


def _bounds(footer: Any, column: str, path: str) -> tuple[Any, Any]:
    index = footer.schema.names.index(column)
    found = []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is None or not statistics.has_min_max:
            raise ValueError(f"{path}: row group {group} has no bounds of {column}")
        # The raw value: a timestamp may lie outside what a datetime can be.
        found.append((statistics.min_raw, statistics.max_raw))
    if not found:
        raise ValueError(f"{path} has no rows")
    return min(low for low, _ in found), max(high for _, high in found)


class Writer:
    """Adds ranges to one topic's table, round after round."""

    def __init__(self, warehouse: str, topic: str = "orders", topic_id: str = TOPIC_ID):
        self.topic, self.topic_id = topic, topic_id
        self.path = create_table(warehouse, topic, topic_id, 2)
        self.round = 0

    def add_like_ours(self, table: pa.Table) -> str:
        """One round with these rows, in a file of the compactor's form; its path."""
        self.round += 1
        end = table.column("offset")[-1].as_py() + 1
        path = f"{partition_directory(0)}/{self.round:04d}-0-{end}.parquet"
        os.makedirs(os.path.join(self.path, partition_directory(0)), exist_ok=True)
        write_like_ours(os.path.join(self.path, path), table)
        files = [describe_file(self.path, path, 0)]
        commit_files(self.path, self.topic_id, self.round, {0: (0, end)}, files)
        return os.path.join(self.path, path)

    def add(
        self,
        partition: int,
        first: int,
        end: int,
        *,
        missing: Sequence[int] = (),
        order: Sequence[int] | None = None,
        row_group_rows: int = 100,
    ) -> Committed:
        """One round with one range: its rows, but for the missing ones."""
        offsets = [o for o in order or range(first, end) if o not in set(missing)]
        self.round += 1
        files = []
        if offsets:
            table = rows(partition, offsets, self.topic)
            name = f"{self.round:04d}-{first}-{end}"
            files.append(write_file(self.path, name, table, row_group_rows))
        return commit_files(
            self.path, self.topic_id, self.round, {partition: (first, end)}, files
        )
