"""Checksums of the checkpoints that the compactor made.

The problem: a checkpoint has no checksum, and of all flipped bits some give another
state of the table that reads well, and others one that our reader takes and the
library does not. The idea: what was written, synced and proven to tell the followed
state is measured, and the measure is kept in a file of ours in the log; whoever reads
the checkpoint compares. Readers of Delta pass over a name that begins with a dot, and
none of them cleans it up.

What differs is not read while the entries below are there, whoever changed it. Who
wrote it anew changed its time too, a failing disk does not: where nothing else tells
the state, only what was written anew is read as it is.

The price: 0.6 ms of CPU a megabyte. What others write is not measured: a measure that
was not taken from proven bytes would only vouch for damage.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from lakehouse.durable import put_in_place
from lakehouse.regular import open_file

NAME: Final = ".lakelog_checkpoints"
KEPT: Final = 100
"""Of so many of the newest versions they are known, and of as many of ours, whatever
others made since; older ones are read by time travel only."""


class Checksum(NamedTuple):
    """What a file was when it was proven. ``is_ours``: we made it, so it tells what had
    left for as long as its table's owner says."""

    size: int
    sha256: str
    modified_ns: int
    is_ours: bool = False


class NotAsWritten(ValueError):
    """A file is not what it was when it was proven."""


def measure(path: str) -> Checksum:
    """The checksum of a file as it is now. Raises OSError."""
    return _read(path)[1]


def read_verified(path: str, known: Checksum) -> bytes:
    """The bytes of a file. Raises NotAsWritten and OSError."""
    data, found = _read(path)
    if found[:2] != known[:2]:
        raise NotAsWritten(
            f"{path} is not as it was written: {found.size} bytes, sha256 "
            f"{found.sha256[:8]}, and were {known.size}, {known.sha256[:8]}"
        )
    return data


def _read(path: str) -> tuple[bytes, Checksum]:
    with open_file(path) as file:
        modified_ns, data = os.fstat(file.fileno()).st_mtime_ns, file.read()
    found = Checksum(len(data), hashlib.sha256(data).hexdigest(), modified_ns)
    return data, found


def written_anew(path: str, known: Checksum) -> bool:
    """Whether somebody wrote the file since, or it is a copy."""
    try:
        return os.stat(path).st_mtime_ns != known.modified_ns
    except OSError:
        return False


def differing(log_directory: str) -> list[str]:
    """What differs or cannot be read of the checkpoints that are known, and of what
    tells their checksums."""
    known_by_name = _decoded(log_directory)
    if known_by_name is None:
        return [NAME]
    found = []
    for name, known in known_by_name.items():
        try:
            read_verified(os.path.join(log_directory, name), known)
        except FileNotFoundError:
            continue  # cleaned away
        except (NotAsWritten, OSError):
            found.append(name)
    return found


def noted(log_directory: str) -> dict[str, Checksum]:
    """Name -> checksum of the checkpoints that are known; none if there are none, or
    the file of them is damaged itself."""
    return _decoded(log_directory) or {}


def _decoded(log_directory: str) -> dict[str, Checksum] | None:
    """The same; None if it is damaged."""
    try:
        with open_file(os.path.join(log_directory, NAME)) as file:
            digest, _, text = file.read().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            return None
        return {name: Checksum(*said) for name, said in json.loads(text).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def note(log_directory: str, found: Mapping[str, Checksum]) -> None:
    """Keep the checksums of a checkpoint's files, durably, and those of others that are
    there. Raises OSError.
    """
    known = {**noted(log_directory), **found}
    there = {name: known[name] for name in known.keys() & {*os.listdir(log_directory)}}
    kept = _newest(there) | _newest(n for n, one in there.items() if one.is_ours)
    _replace(log_directory, {n: one for n, one in there.items() if n[:20] in kept})


def _newest(names: Iterable[str]) -> set[str]:
    """The newest versions, as names begin with them; of one there may be many parts."""
    return set(sorted({name[:20] for name in names})[-KEPT:])


def forget(log_directory: str, names: Iterable[str]) -> None:
    """Keep the checksums of these no longer. Raises OSError."""
    known, gone = noted(log_directory), set(names)
    if gone & known.keys():
        kept = {name: known[name] for name in known.keys() - gone}
        _replace(log_directory, kept)


def _replace(log_directory: str, known: Mapping[str, Any]) -> None:
    text = json.dumps(known, sort_keys=True).encode()
    whole = hashlib.sha256(text).hexdigest().encode() + b"\n" + text
    path = os.path.join(log_directory, NAME)
    put_in_place(path, lambda written: Path(written).write_bytes(whole))
