"""The text of a log entry of ours: what a round or retention says in the log.

Pure. Readers take the actions of an entry in any order; ``commitInfo`` comes first, as
Delta's own writers have it.

Source: the Delta transaction log protocol, "Actions" and "Commit Provenance
Information".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from lakehouse.new_file import NewFile, statistics
from lakehouse.provenance import COMPACT, MERGE, RETENTION, provenance

ENGINE: Final = "Lakelog"
_KEPT_IN_PATHS: Final = "/=:@!$&'()*+,;~"


class Removal(NamedTuple):
    """A file that is to leave: its path as the log has it; -1 rows: it does not say."""

    path: str
    partition: int
    size: int
    rows: int = -1


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
    """What is to leave and what comes in its place, with the same rows."""

    gone: Sequence[Removal]
    files: Sequence[NewFile]
    now_ms: int
    said: Mapping[str, Any]

    @property
    def provenance(self) -> dict[str, Any]:
        metrics = {
            "numRemovedFiles": len(self.gone),
            "numRemovedBytes": sum(file.size for file in self.gone),
            "numAddedFiles": len(self.files),
            "numAddedBytes": sum(file.size for file in self.files),
            "numOutputRows": sum(file.rows for file in self.files),
        }
        return provenance(MERGE, metrics, self.said)


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


def round_entry(added: Round, read_version: int, now_ms: int) -> bytes:
    """The entry of a round, tried on what the table is at ``read_version``."""
    info = _info(COMPACT, read_version, now_ms, is_blind_append=True)
    parameters = {"mode": "Append", "partitionBy": '["partition"]'}
    info["operationParameters"] = parameters
    actions = [{"commitInfo": info | added.provenance}]
    actions += [{"add": _add(file)} for file in added.files]
    actions += [
        {"txn": {"appId": application, "version": version}}
        for application, version in added.transactions.items()
    ]
    return _text(actions)


def removals_entry(gone: Removals, read_version: int, now_ms: int) -> bytes:
    """The entry of what leaves."""
    info = _info(RETENTION, read_version, now_ms, is_blind_append=False)
    actions = [{"commitInfo": info | gone.provenance}]
    actions += [{"remove": _remove(file, gone.now_ms)} for file in gone.files]
    return _text(actions)


def replacement_entry(replaced: Replacement, read_version: int, now_ms: int) -> bytes:
    """The entry of files that come in the place of others; who follows the rows of the
    table passes it over."""
    info = _info(MERGE, read_version, now_ms, is_blind_append=False)
    actions = [{"commitInfo": info | replaced.provenance}]
    actions += [
        {"remove": _remove(file, replaced.now_ms, changes_data=False)}
        for file in replaced.gone
    ]
    actions += [{"add": _add(file, changes_data=False)} for file in replaced.files]
    return _text(actions)


def _info(
    operation: str, read_version: int, now_ms: int, *, is_blind_append: bool
) -> dict[str, Any]:
    return {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": {},
        "readVersion": read_version,
        "isolationLevel": "Serializable",
        "isBlindAppend": is_blind_append,
        "engineInfo": ENGINE,
    }


def _add(file: NewFile, *, changes_data: bool = True) -> dict[str, Any]:
    return {
        "path": quote(file.path, safe=_KEPT_IN_PATHS),
        "partitionValues": {"partition": str(file.partition)},
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": changes_data,
        "stats": statistics(file),
    }


def _remove(file: Removal, now_ms: int, *, changes_data: bool = True) -> dict[str, Any]:
    return {
        "path": file.path,
        "deletionTimestamp": now_ms,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
        "partitionValues": {"partition": str(file.partition)},
        "size": file.size,
    }


def _text(actions: Iterable[Mapping[str, Any]]) -> bytes:
    lines = [json.dumps(action, separators=(",", ":")) for action in actions]
    return ("\n".join(lines) + "\n").encode()
