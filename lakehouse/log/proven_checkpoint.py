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
import re
from contextlib import suppress
from datetime import UTC, datetime

from lakehouse.durable import sync_directory
from lakehouse.errors import CommitRefused
from lakehouse.log import library
from lakehouse.log.checkpoint import HINT
from lakehouse.log.checkpoint_repair import (
    begun,
    difference,
    stash_checkpoint,
    unstash,
)
from lakehouse.log.checksums import measure, note, noted, read_verified
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot, checkpoints, read_version
from lakehouse.log.tombstones import complete

_REFUSED = (CommitRefused, ValueError)
_BEGUN = re.compile(r"\.(\d{20})\.checkpoint\.begun")


def make_checkpoint(snapshot: Snapshot, version: int) -> str | None:
    """Make the checkpoint of a version that was followed, durably; one sentence if
    others were put aside for it.

    Raises CommitRefused, LogDamaged, ValueError and OSError: there is none then.
    """
    stashed = _undo_begun(snapshot)
    why = [f"{', '.join(stashed)}: it was not completed"] if stashed else []
    try:
        _make(snapshot, version)
    except _REFUSED as error:
        why.append(_make_without(snapshot, version, error))
    return "; ".join(why) or None


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
    path = snapshot.path
    before = checkpoints(path)
    _verify_newest(path, [one for one in before if one <= version])
    if version in before:  # an owner's, as he wants it, or known as ours already
        if before[version] == [_name(version)]:
            _prove(snapshot, version, None)
        return
    since_ms = int(datetime.now(UTC).timestamp() * 1000) - snapshot.time_travel_ms
    _begin(path, version)
    try:
        library.checkpoint(path, version)
        _forget_sums(path, version)
        complete(path, version, snapshot.removed, since_ms, followed=snapshot.version)
        _prove(snapshot, version, since_ms)
    except BaseException:
        _delete(path, version)
        _end(path, version)
        raise
    _end(path, version)


def _verify_newest(path: str, below: list[int]) -> None:
    """The library goes on from this one, whatever it is. Raises NotAsWritten."""
    directory = os.path.join(path, LOG_DIRECTORY)
    known = noted(directory)
    for name in checkpoints(path)[below[0]] if below else ():
        if name in known:
            read_verified(os.path.join(directory, name), known[name])


def _begin(path: str, version: int) -> None:
    """Note that a checkpoint is being made: it is not complete before that is gone."""
    place = begun(path, version)
    with open(place, "wb"):
        pass
    sync_directory(os.path.dirname(place))


def _end(path: str, version: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(begun(path, version))


def _undo_begun(snapshot: Snapshot) -> list[str]:
    """Put aside what a process that was killed had not completed, if the log tells the
    same without it: else it stays, being all that tells it. The names of what moved."""
    directory = os.path.join(snapshot.path, LOG_DIRECTORY)
    moved: list[str] = []
    for name in os.listdir(directory):
        if found := _BEGUN.fullmatch(name):
            version = int(found[1])
            if _name(version) not in noted(directory):
                moved += stash_checkpoint(snapshot, version)
            sync_directory(directory)  # what was deleted may come back till then
            os.unlink(os.path.join(directory, name))
    return moved


def _forget_sums(path: str, version: int) -> None:
    """What Hadoop noted of files that were there before would make its readers refuse
    these."""
    for name in (HINT, _name(version)):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(path, LOG_DIRECTORY, f".{name}.crc"))


def _prove(snapshot: Snapshot, version: int, since_ms: int | None) -> None:
    """Note the checksum of what tells the followed state, and, of one that is made now,
    what left later than this; one of ours stays ours. Raises CommitRefused."""
    path, name = snapshot.path, _name(version)
    directory = os.path.join(path, LOG_DIRECTORY)
    found = measure(os.path.join(directory, name))
    state = read_version(
        path, snapshot.version, [name], {name: found}, keep_removed=True
    )
    differing = difference(state, snapshot)
    if differing is None and since_ms is not None:
        differing = _forgotten(state, snapshot, since_ms)
    if differing is not None:
        raise CommitRefused(
            f"{path}: the checkpoint of version {version} does not tell what was "
            f"followed: {differing}"
        )
    is_ours = since_ms is not None or noted(directory).get(name, found).is_ours
    note(directory, {name: found._replace(is_ours=is_ours)})


def _forgotten(state: Snapshot, known: Snapshot, since_ms: int) -> str | None:
    """What one state does not tell of what left later than this."""
    young = ((path, when) for path, when in known.removed.items() if when > since_ms)
    for path, when in young:
        said_ms = state.removed.get(path)
        if said_ms is None:
            return f"that {path} left"
        if said_ms < when:
            return f"when {path} left"
    return None


def _delete(path: str, version: int) -> None:
    """Delete a checkpoint and the hint to it, durably. Raises OSError: it may come back
    then."""
    directory = os.path.join(path, LOG_DIRECTORY)
    if os.path.exists(os.path.join(directory, _name(version))):
        for name in (HINT, _name(version)):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
        sync_directory(directory)


def _name(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"
