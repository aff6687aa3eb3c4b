"""The text of a log entry of ours: what a round or retention says in the log.

Pure. Readers take the actions of an entry in any order; ``commitInfo`` comes first, as
Delta's own writers have it, and as in-commit timestamps want it.

Source: the Delta transaction log protocol, "Actions" and "Commit Provenance
Information".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from lakehouse.log.actions import Metadata, Vector
from lakehouse.log.provenance import (
    CLEAN,
    COMPACT,
    DESCRIBE,
    ENGINE,
    ERASE,
    MERGE,
    REPAIR,
    RETENTION,
    provenance,
)
from lakehouse.new_file import NewFile, partition_value, statistics

_KEPT_IN_PATHS: Final = "/=:@!$&'()*+,;~"
IN_COMMIT: Final = "inCommitTimestamp"
"""Field of ``commitInfo``."""


class Removal(NamedTuple):
    """A file that is to leave: its path as the log has it; -1 rows: it does not say.

    With its ``vector``, as the log knows files by both.
    """

    path: str
    partition: int
    size: int
    rows: int = -1
    vector: Vector | None = None


class Round(NamedTuple):
    """What is to be added: files, ``txn`` actions, what ``commitInfo`` is to say."""

    files: Sequence[NewFile]
    transactions: Mapping[str, int]
    said: Mapping[str, Any]

    @property
    def provenance(self) -> dict[str, Any]:
        metrics = {
            "numFiles": len(self.files),
            "numOutputRows": sum(file.rows for file in self.files),
            "numOutputBytes": sum(file.size for file in self.files),
        }
        return provenance(COMPACT, metrics, self.said)


class Replacement(NamedTuple):
    """What is to leave and what comes in its place: the same rows, or fewer."""

    gone: Sequence[Removal]
    files: Sequence[NewFile]
    now_ms: int
    said: Mapping[str, Any]
    deleted_rows: int | None = None
    """How many rows leave for good; None: it is none's business to leave any."""
    erases: bool = False
    """They leave because somebody asked for that, not for their keys' sake."""

    @property
    def operation(self) -> str:
        if self.erases:
            return ERASE
        return MERGE if self.deleted_rows is None else CLEAN

    @property
    def changes_data(self) -> bool:
        """Whether who follows the rows of the table is to look."""
        return bool(self.deleted_rows)

    @property
    def provenance(self) -> dict[str, Any]:
        metrics = {
            "numRemovedFiles": len(self.gone),
            "numRemovedBytes": sum(file.size for file in self.gone),
            "numAddedFiles": len(self.files),
            "numAddedBytes": sum(file.size for file in self.files),
            "numOutputRows": sum(file.rows for file in self.files),
        }
        if self.deleted_rows is not None:
            metrics["numDeletedRows"] = self.deleted_rows
        return provenance(self.operation, metrics, self.said)


class Removals(NamedTuple):
    """What is to leave, and what ``commitInfo`` is to say."""

    files: Sequence[Removal]
    now_ms: int
    said: Mapping[str, Any]

    @property
    def provenance(self) -> dict[str, Any]:
        metrics = {
            "numRemovedFiles": len(self.files),
            "numRemovedBytes": sum(file.size for file in self.files),
        }
        rows = [file.rows for file in self.files]
        if -1 not in rows:
            metrics["numDeletedRows"] = sum(rows)
        return provenance(RETENTION, metrics, self.said)


class Description(NamedTuple):
    """What a table is to say of its topic: ``properties`` beside those that it has by
    its ``metadata`` (None: they stay as they are), ``txn`` actions, ``commitInfo``."""

    metadata: Metadata | None
    properties: Mapping[str, str]
    transactions: Mapping[str, int]
    said: Mapping[str, Any]

    @property
    def provenance(self) -> dict[str, Any]:
        return provenance(DESCRIBE, {}, self.said)


class Moment(NamedTuple):
    """When a commit is made, and what it is to say of that beside: see
    `lakehouse.log.in_commit`."""

    now_ms: int
    in_commit_ms: int | None = None


def round_entry(added: Round, read_version: int, moment: Moment) -> bytes:
    """The entry of a round, tried on what the table is at ``read_version``."""
    info = _info(COMPACT, read_version, moment, is_blind_append=True)
    parameters = {"mode": "Append", "partitionBy": '["partition"]'}
    info["operationParameters"] = parameters
    actions = [{"commitInfo": info | added.provenance}]
    actions += [{"add": _add(file)} for file in added.files]
    actions += _transactions(added.transactions)
    return _text(actions)


def description_entry(
    described: Description, read_version: int, moment: Moment
) -> bytes:
    """The entry of what a table says of its topic."""
    info = _info(DESCRIBE, read_version, moment, is_blind_append=False)
    actions = [{"commitInfo": info | described.provenance}]
    if described.metadata is not None:
        known = described.metadata
        body = known.body | {
            "configuration": {**known.configuration, **described.properties}
        }
        actions.append({"metaData": body})
    return _text(actions + _transactions(described.transactions))


def removals_entry(gone: Removals, read_version: int, moment: Moment) -> bytes:
    """The entry of what leaves."""
    info = _info(RETENTION, read_version, moment, is_blind_append=False)
    actions = [{"commitInfo": info | gone.provenance}]
    actions += [{"remove": _remove(file, gone.now_ms)} for file in gone.files]
    return _text(actions)


def replacement_entry(
    replaced: Replacement, read_version: int, moment: Moment
) -> bytes:
    """The entry of files that come in the place of others; who follows the rows of the
    table passes it over, if they are the same."""
    info = _info(replaced.operation, read_version, moment, is_blind_append=False)
    changes = replaced.changes_data
    actions = [{"commitInfo": info | replaced.provenance}]
    actions += [
        {"remove": _remove(file, replaced.now_ms, changes_data=changes)}
        for file in replaced.gone
    ]
    actions += [{"add": _add(file, changes_data=changes)} for file in replaced.files]
    return _text(actions)


def repair_entry(read_version: int, moment: Moment) -> bytes:
    """The entry of a version that did nothing."""
    info = _info(REPAIR, read_version, moment, is_blind_append=False)
    return _text([{"commitInfo": info | provenance(REPAIR, {}, {})}])


def _info(
    operation: str, read_version: int, moment: Moment, *, is_blind_append: bool
) -> dict[str, Any]:
    said = {} if moment.in_commit_ms is None else {IN_COMMIT: moment.in_commit_ms}
    return said | {
        "timestamp": moment.now_ms,
        "operation": operation,
        "operationParameters": {},
        "readVersion": read_version,
        "isolationLevel": "Serializable",
        "isBlindAppend": is_blind_append,
        "engineInfo": ENGINE,
    }


def _transactions(found: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {"txn": {"appId": application, "version": version}}
        for application, version in found.items()
    ]


def _add(file: NewFile, *, changes_data: bool = True) -> dict[str, Any]:
    return {
        "path": quote(file.path, safe=_KEPT_IN_PATHS),
        "partitionValues": {"partition": partition_value(file.partition)},
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": changes_data,
        "stats": statistics(file),
    }


def _remove(file: Removal, now_ms: int, *, changes_data: bool = True) -> dict[str, Any]:
    vector = {} if file.vector is None else {"deletionVector": file.vector.body}
    return vector | {
        "path": file.path,
        "deletionTimestamp": now_ms,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
        "partitionValues": {"partition": partition_value(file.partition)},
        "size": file.size,
    }


def _text(actions: Iterable[Mapping[str, Any]]) -> bytes:
    lines = [json.dumps(action, separators=(",", ":")) for action in actions]
    return ("\n".join(lines) + "\n").encode()
