"""Log entries put in their place: whole, durable, and only if there is none yet.

The problem: two writers may want the same version of a table's log, a reader may look
while an entry is written, and Delta never syncs. The idea: the entry is written and
synced under another name, and then linked to its own: link(2) fails where something is
there, and what can be seen is whole and on the disk. The directory is synced last.

This is the one place that makes entries of ours; where tables lie in an object store,
a conditional PUT takes its place.

The price: whoever is killed in between leaves a file that nobody reads (`sweep`).
Spark's own LocalLogStore renames, and may so replace an entry of anybody's: whoever put
one reads it back. And what writers left beside an entry that went is to go first.

Source: the Delta transaction log protocol, "Delta Log Entries", "Version Checksum
File", "Log Compaction Files"; Hadoop's ``ChecksumFileSystem``; link(2).
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lakehouse.durable import SyncFailed, sync_directory, sync_file, write_anew
from lakehouse.errors import CommitRefused
from lakehouse.log.delta_log import LOG_DIRECTORY, entry_path
from lakehouse.log.log_compactions import covering, reaching, span_of, unseen
from lakehouse.log.torn import is_blank

_PREFIX, _SUFFIX = ".entry-", ".tmp"
"""A name that readers of the log pass over: it does not begin with a version."""
_STATE: Final = re.compile(r"\d{20}\.(?:json|checkpoint\..*(?:json|parquet))")
_CHECKSUM: Final = re.compile(r"\.?(\d{20})\.(?:crc|crc\.crc|json\.crc)")


def put_if_absent(
    path: str,
    version: int,
    text: bytes,
    *,
    on_written: Callable[[], None] = lambda: None,
    on_linked: Callable[[], None] = lambda: None,
) -> bool:
    """Make the log entry of a version, durably; False if there is one already.

    ``on_written`` is called when all but the name is there, ``on_linked`` before that
    is synced (failpoints). Raises OSError, and no entry was made then, or it is there
    and not known to be durable; CommitRefused when another process swept the file.
    """
    with unseen(path):
        return _put(path, version, text, on_written, on_linked)


def _put(
    path: str,
    version: int,
    text: bytes,
    on_written: Callable[[], None],
    on_linked: Callable[[], None],
) -> bool:
    directory = os.path.join(path, LOG_DIRECTORY)
    written, entry = _name_beside(directory, version), entry_path(path, version)
    try:
        _write(written, text)
        on_written()
        if not _link(written, entry):
            return False
        on_linked()
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written)
    _sync_name(directory, entry)
    return True


def put_for_blank(path: str, version: int, text: bytes, made_ns: int) -> bool:
    """Make it where an empty one stands, durably; False if none does. What is there is
    never overwritten otherwise, and there is an entry at any time. Its file is as old
    as that was: Delta's readers take no version for older than the one before it, and
    so would find none by time that was made until now. Raises OSError."""
    directory = os.path.join(path, LOG_DIRECTORY)
    written, entry = _name_beside(directory, version), entry_path(path, version)
    try:
        _write(written, text, made_ns)
        if not is_blank(entry):
            return False
        # of no bytes, or of others: no reader would take ours
        _drop(path, [*_noted_of(version), *covering(path, version)])
        os.replace(written, entry)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written)
    _sync_name(directory, entry)
    return True


def _name_beside(directory: str, version: int) -> str:
    name = f"{_PREFIX}{version:020d}-{os.urandom(8).hex()}{_SUFFIX}"
    return os.path.join(directory, name)


def _write(path: str, text: bytes, made_ns: int | None = None) -> None:
    with open(path, "xb") as file:
        file.write(text)
    if made_ns is not None:
        os.utime(path, ns=(made_ns, made_ns))
    sync_file(path)


def _link(written: str, entry: str) -> bool:
    """Give the file its name, too; False if that is another one's."""
    try:
        os.link(written, entry)
    except FileExistsError:
        # A network file system may have done it before it was asked again.
        return os.path.samefile(written, entry)
    except FileNotFoundError as error:
        raise CommitRefused(f"{entry}: its bytes or its log are gone") from error
    return True


def _sync_name(directory: str, entry: str) -> None:
    """Others see the entry already, and their sync of the directory would succeed: so
    one that failed is made again with something to write."""
    try:
        sync_directory(directory)
    except SyncFailed:
        write_anew(entry)
        sync_directory(directory)


def drop_left(path: str, version: int) -> bool:
    """Delete, durably, what is left of an entry that is not there: what its writer said
    of the version, Hadoop's checksums, and log compactions that reach to it. Readers
    would take them for those of the next entry, and refuse that, or take the metadata
    of the one before, or all of it. Whether some was there, and the directory is
    synced. Raises OSError.
    """
    if os.path.lexists(entry_path(path, version)):
        return False
    left = [*_noted_of(version), *reaching(path, version)]
    if os.path.lexists(entry_path(path, version)):  # somebody's came meanwhile
        return False
    return _drop(path, left)


def _noted_of(version: int) -> list[str]:
    of_entry, of_version = f"{version:020d}.json", f"{version:020d}.crc"
    return [of_version, f".{of_version}.crc", f".{of_entry}.crc"]


def _drop(path: str, names: list[str]) -> bool:
    directory, gone = os.path.join(path, LOG_DIRECTORY), 0
    for name in names:
        with suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(os.path.join(directory, name))
            gone += 1
    if gone:
        sync_directory(directory)
    return gone > 0


def drop_left_beyond(path: str) -> None:
    """The same of all versions beyond the newest that is there: where the last entries
    were taken away, no reader opens the table for what is left of them."""
    _drop_beyond(path, os.listdir(os.path.join(path, LOG_DIRECTORY)))


def _drop_beyond(path: str, names: list[str]) -> None:
    newest = max(
        (int(name[:20]) for name in names if _STATE.fullmatch(name)), default=-1
    )
    left = ((name, _last_version(name)) for name in names)
    _drop(path, [
        name for name, last in left
        if last > newest and not os.path.lexists(entry_path(path, last))
    ])  # fmt: skip


def _last_version(name: str) -> int:
    """The last of which something is noted under this name; -1 if nothing is."""
    if found := _CHECKSUM.fullmatch(name):
        return int(found[1])
    span = span_of(name)
    return -1 if span is None else span[1]


def sweep(path: str) -> int:
    """Delete what killed writers left in the log of a table, and durably what is left
    of entries that were taken from its end; how many files killed writers left.

    One that is still at work is refused then, before anybody sees its entry.
    """
    directory, count = os.path.join(path, LOG_DIRECTORY), 0
    names = os.listdir(directory)
    _drop_beyond(path, names)
    for name in names:
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
                count += 1
    return count
