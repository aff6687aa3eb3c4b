"""Of which partition the rows of a file are.

The problem: an older version of a row is found by its offset, and an offset means
something only with its partition, which is no column of a file that Spark or the
library wrote. The idea: most files lie in their partition's directory; where a table's
owner lets Delta choose the places of files (``delta.randomizeFilePrefixes``), the log
says the partition, in whatever action names the file.

The price: the whole log is read where the directory of a file says nothing; and of a
file that the log does not name either, nobody knows.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from jobs.erasing.log_files import said_in
from lakehouse.column_names import alike
from lakehouse.in_flight import DIRECTORY as IN_FLIGHT
from lakehouse.location import Names
from lakehouse.log.actions import NO_PARTITION, ODD_PARTITION, partition_of
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot

CHANGES: Final = "_change_data"
_NUMBER: Final = "(-?[0-9]{1,19}|__HIVE_DEFAULT_PARTITION__)"
_DIRECTORY: Final = re.compile(rf"(?:{CHANGES}/)?partition={_NUMBER}/")
_BEGUN: Final = re.compile(rf"{re.escape(IN_FLIGHT)}/\.partition={_NUMBER}-")
_KINDS: Final = "add", "remove", "cdc"

Partitions = Mapping[str, int | None]
"""Path below a table -> the partition of its rows; None: nobody knows."""


def partitions_of(table: Snapshot, paths: Iterable[str]) -> dict[str, int | None]:
    """Of each of these files below a table; blocks."""
    live = {file.relative_path: file.partition for file in table.files.values()}
    found = {path: live.get(path, by_directory(path)) for path in paths}
    unknown = [path for path, partition in found.items() if partition is None]
    if unknown:
        said = _in_log(table.path)
        found |= {path: said.get(path) for path in unknown}
    return found


def by_directory(path: str) -> int | None:
    """As the directory of a file says it, where writers of Delta tables put files, and
    our own what they have begun."""
    found = _DIRECTORY.match(path) or _BEGUN.match(path)
    if found is None:
        return None
    number = NO_PARTITION if found[1].startswith("_") else partition_of(found[1])
    return None if number == ODD_PARTITION else number


def _in_log(root: str) -> dict[str, int]:
    """Path -> partition, of all files that entries and checkpoints name."""
    found, names = dict[str, int](), Names(root)
    for said in said_in(os.path.join(root, LOG_DIRECTORY)):
        if said.kind in _KINDS:
            with suppress(LookupError, TypeError, ValueError):  # an owner's odd action
                values = dict(said.body["partitionValues"])
                number = partition_of(values[alike("partition", values)[0]])
                if number != ODD_PARTITION:
                    found[names.below(said.body["path"])] = number
    return found
