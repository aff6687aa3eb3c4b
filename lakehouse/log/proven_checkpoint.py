"""Checkpoints of ours: written by the library, proven, and then noted.

The problem: the library makes a checkpoint of what lies on the disk, the checkpoint
before included; where that is damaged and still can be read, the damage goes on into
each one after it, for ever. The idea: what was written is read back, and must tell the
state that the compactor followed. Only then its checksum is noted, and only then may
what expired be deleted (`expiry.clean_up`). What it lacks of files that left is put in
before (`tombstones`). Where it tells another state, or
the library could not go on from the checkpoint before, that one is put aside if the log
tells the same without it, and all is tried once more.

The price: to read it back takes two to three times as long as to write it: 0.5 s of CPU
for 20,000 files.

Used by the compactor's process only; everything here blocks.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime

from lakehouse.errors import CommitRefused
from lakehouse.log import library
from lakehouse.log.checkpoint import HINT
from lakehouse.log.checkpoint_repair import difference, stash_checkpoint, unstash
from lakehouse.log.checksums import measure, note, noted, read_verified
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, checkpoints, read_version
from lakehouse.log.tombstones import complete

_REFUSED = (CommitRefused, ValueError)


def make_checkpoint(snapshot: Snapshot, version: int) -> str | None:
    """Make the checkpoint of a version that was followed, durably; one sentence if
    another was put aside for it.

    Raises CommitRefused, LogDamaged, ValueError and OSError: there is none then.
    """
    try:
        _make(snapshot, version)
    except _REFUSED as error:
        return _make_without(snapshot, version, error)
    return None


def _make_without(snapshot: Snapshot, version: int, cause: Exception) -> str:
    """The same without the checkpoint that the library goes on from."""
    path = snapshot.path
    below = [one for one in checkpoints(path) if one <= version]
    moved = stash_checkpoint(snapshot, below[0]) if below else []
    if not moved:
        raise cause
    try:
        _make(snapshot, version)
    except BaseException:  # it was not that one's fault
        unstash(path, moved)
        raise
    return f"{', '.join(moved)}: {cause}"


def _make(snapshot: Snapshot, version: int) -> None:
    path, before = snapshot.path, checkpoints(snapshot.path)
    _verify_newest(path, [one for one in before if one <= version])
    since_ms = int(datetime.now(UTC).timestamp() * 1000) - snapshot.time_travel_ms
    library.checkpoint(path, version)
    try:
        complete(path, version, snapshot.removed, since_ms)
        _prove(snapshot, version, since_ms)
    except _REFUSED:
        if version not in before:
            _delete(path, version)
        raise


def _verify_newest(path: str, below: list[int]) -> None:
    """The library goes on from this one, whatever it is. Raises NotAsWritten."""
    directory = os.path.join(path, LOG_DIRECTORY)
    known = noted(directory)
    for name in checkpoints(path)[below[0]] if below else ():
        if name in known:
            read_verified(os.path.join(directory, name), known[name])


def _prove(snapshot: Snapshot, version: int, since_ms: int) -> None:
    """Note the checksum of what tells the followed state, and what left later than
    this. Raises CommitRefused."""
    path, name = snapshot.path, _name(version)
    directory = os.path.join(path, LOG_DIRECTORY)
    found = measure(os.path.join(directory, name))
    state = read_version(
        path, snapshot.version, [name], {name: found}, keep_removed=True
    )
    differing = difference(state, snapshot) or _forgotten(state, snapshot, since_ms)
    if differing is not None:
        raise CommitRefused(
            f"{path}: the checkpoint of version {version} does not tell what was "
            f"followed: {differing}"
        )
    note(directory, name, found)


def _forgotten(state: Snapshot, known: Snapshot, since_ms: int) -> str | None:
    """What one state does not tell of what left later than this."""
    young = (path for path, when in known.removed.items() if when > since_ms)
    path = next((path for path in young if path not in state.removed), None)
    return path and f"that {path} left"


def _delete(path: str, version: int) -> None:
    for name in (HINT, _name(version)):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(path, LOG_DIRECTORY, name))


def _name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"
