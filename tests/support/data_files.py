"""Data files as a log tells of them, that are nowhere on disk."""

from lakehouse.log.actions import DataFile
from lakehouse.new_file import partition_directory


def data_file(
    first: int, end: int, *, partition: int = 0, size: int = 1 << 20, rows: int = 1
) -> DataFile:
    """One of the compactor's with rows from ``first`` up to before ``end``."""
    name = f"{first:020d}-{end:020d}-1-1-1.parquet"
    path = f"{partition_directory(partition)}/{name}"
    return DataFile(path, partition, size, rows, first, end - 1, 0, 0, 0)
