"""What expires of a table's log: entries that a checkpoint stands for.

The problem: who opens a table lists its log, which would grow for ever; and what is
deleted of it cannot be had again: older versions, and what a damaged checkpoint is
mended from. So the library's own clean-up is not asked: it takes the time that an owner
gave in other words than its own for thirty days, cleans where its owner said that
nobody shall, and takes a name of a checkpoint for one. The idea, as Delta does it: all
below one checkpoint goes, the newest that is older than the retention, as all entries
up to it are; but it must be whole, and is read before anything is deleted. Where the
retention is no length of time that we know, nothing is.

The price: that checkpoint is read, half a second of 20,000 files; no more than
`GONE_MAX` files go at a time. And what an owner copied or touched lately is not old,
nor is what came behind it. What lies beside an entry goes with it: what its writer
noted, and what was put aside or a killed process left there.

Source: the Delta transaction log protocol, "Metadata Cleanup", "Checkpoint Protection";
``io.delta`` ``MetadataCleanup``. Used by the compactor's process only; blocks.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from stat import S_ISREG
from typing import Final

from lakehouse.errors import CommitRefused
from lakehouse.intervals import interval_ms
from lakehouse.log.checkpoint import (
    SIDECARS,
    complete_checkpoints,
    is_of_checkpoint,
    read_checkpoint,
    sidecars_of,
)
from lakehouse.log.checksums import noted
from lakehouse.log.delta_log import LOG_DIRECTORY, Snapshot
from lakehouse.log.log_compactions import span_of

RETENTION: Final = "delta.logRetentionDuration"
ENABLED: Final = "delta.enableExpiredLogCleanup"
DEFAULT_RETENTION: Final = "interval 30 days"
PROTECTION: Final = "checkpointProtection"
"""A writer that does not know this feature's rules deletes nothing."""

GONE_MAX: Final = 10_000
"""To delete as many takes half a second. The rest goes next time."""

_DAY_MS: Final = 86_400_000
_ENTRY: Final = re.compile(r"\d{20}\.json")
_CHECKSUM: Final = re.compile(r"\d{20}\.crc")
_TMP: Final = r"\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp"
"""What Spark puts behind the name of what it has not yet given that."""
_LEFT: Final = re.compile(
    r"\d{20}\.json(\.torn|#\d+)|\d{20}\.(json|checkpoint\.\S+)\.anew"
    r"|\.\d{20}\.checkpoint\.parquet\.tmp|\d{20}\.checkpoint\.parquet#\d+"
    rf"|\.\d{{20}}\.(json|crc|checkpoint\.\S+){_TMP}"
)
"""What a repair put aside, or a process that was killed was writing."""
_LEFT_OF_SIDECAR: Final = re.compile(rf"\..+\.parquet{_TMP}|.+\.parquet\.anew")
_OF_SIDECAR: Final = re.compile(rf"\..+\.parquet({_TMP})?\.crc")
"""The checksum of one, or of what was to be one."""
_HADOOPS: Final = re.compile(r"\.(\.?\d{20}\..+)\.crc")
"""The checksum of another file."""


def clean_up(snapshot: Snapshot, now_ms: int) -> int:
    """Delete what expired of a table's log; how many files went. Lists the log.

    Raises CommitRefused where the checkpoint that would stand for what goes cannot be
    read, and OSError.
    """
    retention_ms = log_retention_ms(snapshot)
    if retention_ms is None:
        return 0
    # Delta keeps the whole of the day in which the retention ends.
    until_ms = (now_ms - retention_ms) // _DAY_MS * _DAY_MS
    log = _Log(os.path.join(snapshot.path, LOG_DIRECTORY), until_ms)
    gone = log.expired()
    _delete(log.directory, gone)
    sidecars = os.path.join(log.directory, SIDECARS)
    unnamed = _unnamed(log.directory, sidecars, min(until_ms, now_ms - _DAY_MS))
    unnamed = unnamed[: GONE_MAX - len(gone)]
    _delete(sidecars, unnamed)
    return len(gone) + len(unnamed)


def log_retention_ms(snapshot: Snapshot) -> int | None:
    """For how long entries stay at least; None: for ever, or nobody can say."""
    said = snapshot.configuration
    if said.get(ENABLED, "true").strip().lower() != "true":
        return None
    if PROTECTION in snapshot.protocol.writer_features:
        return None
    return interval_ms(said.get(RETENTION, DEFAULT_RETENTION))


class _Log:
    """The names in a log's directory, and what of them is older than a time."""

    def __init__(self, directory: str, until_ms: int) -> None:
        self.directory, self._until_ms = directory, until_ms
        self._names = sorted(os.listdir(directory))

    def expired(self) -> list[str]:
        """The files that go, the oldest first: whenever that is cut off, the log that
        is left has no hole. Raises CommitRefused."""
        old = self._old_version()
        for version, names in complete_checkpoints(self._names) if old >= 0 else ():
            if version > old or not self._stands(version, names):
                continue
            below = self._below(version)
            if below:
                _check(self.directory, version, names)
            return below
        return []

    def _stands(self, version: int, names: list[str]) -> bool:
        """Whether it is old, and no other of its version is what others may read."""
        first = f"{version:020d}"
        of_it = {one for one in self._names if one.startswith(first)}
        if complete_checkpoints(of_it.difference(names)):
            return False
        return _are_old(self.directory, names, self._until_ms)

    def _old_version(self) -> int:
        """The newest whose entry is old, as all below it are; -1 if there is none."""
        newest = -1
        for name in filter(_ENTRY.fullmatch, self._names):
            if not _are_old(self.directory, [name], self._until_ms):
                break
            newest = int(name[:20])
        return newest

    def _below(self, version: int) -> list[str]:
        """The first of what is of versions before this one, as many as go at a time."""
        found: list[str] = []
        for name in self._names:
            of = _version_of(name)
            if of is None or of >= version:
                continue
            if S_ISREG(os.lstat(os.path.join(self.directory, name)).st_mode):
                found.append(name)
            if len(found) >= GONE_MAX:
                break
        return found


def _version_of(name: str) -> int | None:
    """The version that a file of the log is of, the last if it is of several; None: it
    is none of Delta's, nor one that was put aside, left, or noted of one of these."""
    span = span_of(name.removesuffix(".damaged"))
    if span is not None:
        return span[1]
    hadoops = _HADOOPS.fullmatch(name)
    name = hadoops[1] if hadoops is not None else name
    is_of_one = _ENTRY.fullmatch(name) or _CHECKSUM.fullmatch(name)
    if is_of_one or is_of_checkpoint(name.removesuffix(".damaged")):
        return int(name[:20])
    if _LEFT.fullmatch(name):
        return int(name.removeprefix(".")[:20])
    return None


def _check(directory: str, version: int, names: list[str]) -> None:
    """Raises CommitRefused if a checkpoint stands for nothing."""
    try:
        read_checkpoint(directory, version, names, noted(directory))
    except ValueError as error:
        raise CommitRefused(
            f"{directory}: nothing below checkpoint {version} is deleted: {error}"
        ) from error


def _are_old(directory: str, names: Iterable[str], until_ms: int) -> bool:
    places = (os.path.join(directory, name) for name in names)
    return all(os.stat(place).st_mtime_ns < until_ms * 1_000_000 for place in places)


def _unnamed(directory: str, sidecars: str, until_ms: int) -> list[str]:
    """The old sidecars that no checkpoint names, what killed writers left of others,
    and before each its checksum. Where a checkpoint cannot be read, nobody knows which
    it names."""
    try:
        names = os.listdir(sidecars)
    except (FileNotFoundError, NotADirectoryError):
        return []
    aged = {name for name in names if _is_old_file(sidecars, name, until_ms)}
    old = {name for name in aged if name.endswith(".parquet")}
    checkpoints = sorted(filter(is_of_checkpoint, os.listdir(directory)))
    for name in checkpoints:  # what is old is named by the oldest
        if not old:
            break
        try:
            old.difference_update(sidecars_of(directory, name))
        except ValueError:
            return []
    old.update(filter(_LEFT_OF_SIDECAR.fullmatch, aged))
    of_none = aged.difference(f".{name}.crc" for name in set(names) - old)
    return sorted(old.union(filter(_OF_SIDECAR.fullmatch, of_none)))


def _is_old_file(directory: str, name: str, until_ms: int) -> bool:
    try:
        found = os.lstat(os.path.join(directory, name))
    except FileNotFoundError:  # it has another name now
        return False
    return S_ISREG(found.st_mode) and found.st_mtime_ns < until_ms * 1_000_000


def _delete(directory: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
