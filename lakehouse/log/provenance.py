"""What a commit of ours says of itself, so that a table's history can be asked.

The problem: who reads a table by version wants to know which version brought an offset,
and who changed what; Spark's DESCRIBE HISTORY shows an operation, its metrics and the
user metadata of a commit, and nothing else that a writer adds. The idea: the operation
has a name of its own, and the offsets stand in the user metadata as JSON, beside the
fields that we ourselves go by (`lakehouse.properties`): a copy for people, and nothing
here reads it. Pure.

The price: each range stands in an entry twice. The library gives its own names to
operations (`WRITE`), so the user metadata name ours as well.

Source: Delta's DESCRIBE HISTORY, "History schema" and "Operation metrics keys".
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from lakehouse.properties import (
    CLEANED,
    DESCRIBED,
    ERASED,
    LOG_START,
    MERGED,
    RANGES,
)

ENGINE: Final = "Lakelog"
COMPACT: Final = "LAKELOG COMPACT"
"""Records came out of the log."""
RETENTION: Final = "LAKELOG RETENTION"
"""Files left that lay below the start of the log."""
MERGE: Final = "LAKELOG MERGE"
"""Rows moved from files to others, and none changed."""
CLEAN: Final = "LAKELOG CLEAN"
"""The same, and rows left whose keys came again: key compaction."""
ERASE: Final = "LAKELOG ERASE"
"""The same, and rows left because they are to be nowhere: `lakelog erase`."""
DESCRIBE: Final = "LAKELOG DESCRIBE"
"""Nothing but what the table says of its topic changed."""
REPAIR: Final = "LAKELOG REPAIR"
"""Nothing at all: an owner's entry was empty, and readers may have passed it."""

_SHOWN: Final = {
    RANGES: "ranges", LOG_START: "logStart", MERGED: "merged", CLEANED: "cleaned",
    ERASED: "erased", DESCRIBED: "described",
}  # fmt: skip
"""Field of ``commitInfo`` -> its key in the user metadata."""


def is_ours(text: str) -> bool:
    """Whether an entry of a table's log is of a commit of ours; the library, which
    names itself, keeps what we say of it."""
    return f'"engineInfo":"{ENGINE}"' in text or any(
        f'"{key}"' in text for key in _SHOWN
    )


def provenance(
    operation: str, metrics: Mapping[str, int], said: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of ``commitInfo`` that say what a commit did: ``said`` and a copy of
    it for people."""
    shown = {key: said[field] for field, key in _SHOWN.items() if field in said}
    metadata = json.dumps({"operation": operation} | shown, separators=(",", ":"))
    return {
        **said,
        "operationMetrics": {key: str(value) for key, value in metrics.items()},
        "userMetadata": metadata,
    }
