"""Log compaction files that are no copies of their entries are put aside.

The problem: Spark and Delta's kernel see what such a file says in place of the entries,
and nobody syncs one. A power cut leaves it without a byte, which they take for entries
without actions; and where another entry came since, it says what was there before. The
idea: what the entries say together stands in it, or it may go (`.damaged`), as they are
there.

The price: the entries behind the newest checkpoint that have a copy are read once more
when a table is loaded. What is wrong below that concerns older versions, and is looked
for by `lakelog check` alone.

Source: the Delta transaction log protocol, "Log Compaction Files", "Action
Reconciliation". Used by the compactor's process, and by tools.
"""

import errno
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from lakehouse.durable import sync_directory
from lakehouse.errors import LogDamaged
from lakehouse.log.actions import metadata_of, protocol_of, vector_of
from lakehouse.log.checkpoint_repair import plain_metadata, plain_protocol
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, read_entry
from lakehouse.log.log_compactions import present, span_of
from lakehouse.properties import TRANSACTIONS_EXPIRE
from lakehouse.regular import NotAFile, open_file

_Key = tuple[object, ...]
_ODD = (
    ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError,
    LogDamaged,
)  # fmt: skip
"""What is raised of an action that is not as it should be."""


def repair_compactions(snapshot: Snapshot) -> str | None:
    """Move aside those that readers of the newest version would take and that are no
    copies; one sentence if there was one. Raises OSError."""
    path, found = snapshot.path, dict[str, str]()
    for name, first, last in present(path):
        if name[0] != "." and snapshot.checkpoint < first and last <= snapshot.version:
            why = why_no_copy(path, name, expires=expires(snapshot))
            if why is not None:
                found[name] = why
    for name in found:
        _stash(os.path.join(path, LOG_DIRECTORY), name)
    return "; ".join(f"{name}: {why}" for name, why in found.items()) or None


def _stash(directory: str, name: str) -> None:
    with suppress(FileNotFoundError):
        os.replace(
            os.path.join(directory, name), os.path.join(directory, f"{name}.damaged")
        )
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, f".{name}.crc"))
    sync_directory(directory)


def expires(snapshot: Snapshot) -> bool:
    """Whether an owner has it that copies leave out old transactions."""
    return TRANSACTIONS_EXPIRE in snapshot.configuration


def why_no_copy(path: str, name: str, *, expires: bool = False) -> str | None:
    """What a log compaction file does not say as its entries do; None: nothing, or
    these are not there, or cannot be read, or it cannot be by a fault that is not its
    own. ``expires``: owners' transactions may be left out."""
    span = span_of(name)
    assert span is not None, name
    versions = range(span[0], span[1] + 1)
    try:
        wanted, unsaid = _reconciled(read_entry(path, version) for version in versions)
    except (OSError, *_ODD):
        return None
    try:
        with open_file(os.path.join(path, LOG_DIRECTORY, name)) as file:
            said, _ = _reconciled([file.read()])
    except OSError as error:
        is_its_own = isinstance(error, NotAFile) or error.errno == errno.EIO
        return f"it cannot be read: {error}" if is_its_own else None
    except _ODD as error:
        return f"it cannot be read: {error}"
    if wanted and not said:
        return "it says nothing"
    for key in (*wanted, *said):
        may_lack = key in unsaid or (expires and _is_dated(wanted.get(key)))
        if said.get(key) != wanted.get(key) and not (key not in said and may_lack):
            return f"it says otherwise of {' '.join(map(str, key[:2]))}"
    return None


def _is_dated(said: object) -> bool:
    """Whether that is a transaction that may expire."""
    return isinstance(said, tuple) and said[1] is True


def _reconciled(texts: Iterable[bytes]) -> tuple[dict[_Key, object], set[_Key]]:
    """What actions say together, the last of each key; and which files came with them
    and left: that says nothing to those who never saw one come. What comes without new
    data may have been there before, as where its statistics are written anew."""
    said, come = dict[_Key, object](), set[_Key]()
    for text in texts:
        for action in map(json.loads, filter(bytes.strip, text.split(b"\n"))):
            for kind, body in action.items():
                found = None if body is None else _of_action(kind, body)
                if found is None:
                    continue
                if kind == "add" and found[0] not in said and body["dataChange"]:
                    come.add(found[0])
                said[found[0]] = found[1]
    return said, {key for key in come if said[key] == "remove"}


def _of_action(kind: str, body: Mapping[str, Any]) -> tuple[_Key, object] | None:
    """What an action is about, and what it says of that; None: nothing of the rows, the
    ends or the columns."""
    if kind in ("add", "remove"):
        vector = vector_of(body.get("deletionVector"))
        return ("file", body["path"], vector and vector[:3]), kind
    if kind == "txn":
        is_dated = body.get("lastUpdated") is not None  # ours never are
        return (kind, body["appId"]), (int(body["version"]), is_dated)
    if kind == "protocol":
        return (kind,), plain_protocol(protocol_of(body))
    if kind == "metaData":
        return (kind,), plain_metadata(metadata_of(body))
    return None
