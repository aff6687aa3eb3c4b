"""Whether the rows of a table can be read right, as its log says. Pure.

The problem: an owner may give his table what this reader does not know, or take away
what makes a record: a consumer that gets nothing for a key or a value that is there
takes it for a tombstone, and deletes. The idea: such a table is not read, and one
sentence says why, and what brings it back. What a record can be without (a header, a
time) may be missing. Of files that lack a column which the table has, Delta's rule
holds: it is null.

Source: the Delta transaction log protocol, "Requirements for Readers".
"""

import json
from functools import lru_cache
from typing import Final

from lakehouse.column_names import alike
from lakehouse.index import OffsetIndex
from lakehouse.log.actions import (
    COLUMNS,
    ODD_PARTITION,
    PHYSICAL_NAME,
    Metadata,
    Protocol,
)

_FEATURES: Final = {
    "columnMapping",  # as long as our columns keep their names in the files: see below
    "deletionVectors",
    "timestampNtz",
    "typeWidening",  # a column is cast to the type that it was made with
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",  # of columns beside ours, which are not read
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
}
_RECORD: Final = "offset", "key", "value"
"""Columns without which no row is the record that it was."""


def why_unreadable(protocol: Protocol, metadata: Metadata | None) -> str | None:
    """One sentence if this reader cannot read such a table right, else None."""
    if metadata is None:
        return "the log holds no metaData action"
    if protocol.reader > 3:
        return f"its reader version is {protocol.reader}, above 3"
    unknown = sorted(set(protocol.reader_features) - _FEATURES)
    if unknown:
        return f"it needs the reader features {', '.join(unknown)}"
    names = _names_in_files(metadata.schema_string)
    mapping = metadata.configuration.get("delta.columnMapping.mode", "none").lower()
    is_mapped = protocol.reader >= 2 and mapping != "none"
    if is_mapped:
        missing = [
            name for name in sorted(COLUMNS) if not alike(name, {*names.values()})
        ]
        if mapping != "name" or missing:
            return f"its columns are mapped by {mapping}: {', '.join(missing)}"
    if [one.lower() for one in metadata.partition_columns] != ["partition"]:
        columns = ", ".join(metadata.partition_columns) or "nothing"
        back = "overwrite it with what it has, and partitionBy('partition')"
        if names.get(columns) == "partition":
            back = "rename it back"
        return f"it is partitioned by {columns}, not by partition: {back}"
    return None if is_mapped or not names else _no_record(names)


def why_odd(index: OffsetIndex) -> str | None:
    """One sentence if files of a table are of a partition that nobody here knows."""
    if ODD_PARTITION not in index.partitions:
        return None
    path = index.files_of(ODD_PARTITION)[0].relative_path
    return (
        f"the partition of its file {path} is no number as ours are written: write it "
        "once more with partition as int, or RESTORE the table to the version before "
        "if nothing was added since (DESCRIBE HISTORY)"
    )


def _no_record(names: dict[str, str]) -> str | None:
    """One sentence if columns are not there that a record must have, else None."""
    missing = [name for name in _RECORD if not alike(name, names)]
    if not missing:
        return None
    columns = " and ".join(missing)
    are = "columns {} are" if len(missing) > 1 else "column {} is"
    return (
        f"its {are.format(columns)} missing, and consumers would take what is left for "
        "records that were deleted: RESTORE it to the version before if nothing was "
        "added since (DESCRIBE HISTORY)"
    )


@lru_cache(256)
def _names_in_files(schema: str) -> dict[str, str]:
    """What the columns are called now -> in the data files, which never changes, where
    they are mapped."""
    try:
        fields = json.loads(schema)["fields"]
        said = [(one["name"], one.get("metadata") or {}) for one in fields]
        return {str(now): str(more.get(PHYSICAL_NAME, now)) for now, more in said}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
