"""Checkpoints that cannot be trusted are put aside, where the log tells the same.

The problem: nobody syncs a checkpoint but us, and none has a checksum of its own: a
power cut leaves one empty, a failing disk one that our reader passes over, or takes
while the library, and so the owner, opens no such table. The idea: a checkpoint is a
copy of what the entries below it tell. Where these are there and tell the state that is
followed, it may go (`.damaged`), and the hint to it as well.

The price: where the entries below are gone, because the owner keeps none, nothing but
the checkpoint tells the state. Then it stays, and is told.

Used by the compactor's process only; everything here blocks.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lakehouse.durable import sync_directory
from lakehouse.errors import LakehouseError
from lakehouse.log import library
from lakehouse.log.actions import DataFile, Metadata, Protocol, parse_commit
from lakehouse.log.checkpoint import HINT, SIDECARS
from lakehouse.log.checksums import (
    Checksum,
    forget,
    measure,
    note,
    noted,
    written_anew,
)
from lakehouse.log.delta_log import (
    LOG_DIRECTORY,
    Snapshot,
    checkpoints,
    load_version,
    read_entry,
    read_version,
)
from lakehouse.properties import TRANSACTIONS_EXPIRE

_UNREADABLE = (LakehouseError, ValueError, OSError)


def repair_checkpoint(snapshot: Snapshot) -> str | None:
    """Move aside what ``snapshot`` was loaded without; one sentence if there was one.

    What differs from what we wrote goes. Of what others wrote the library judges: what
    it opens, its owner's checkpoint of a kind that is new to us, stays. Behind a torn
    entry it opens nothing, and nothing is judged.
    """
    if snapshot.torn is not None:
        return None
    differing = set(_ours(snapshot))
    if differing:
        _stash(snapshot.path, {*differing, HINT})
    rest = {*snapshot.damaged} - differing
    closed = library.why_closed(snapshot.path) if rest else None
    if isinstance(closed, OSError):  # of the hint, or of the process
        _stash(snapshot.path, {HINT})
    elif closed is not None:
        _stash(snapshot.path, {*rest, HINT})
    if closed is None and not differing:
        return None
    return f"{', '.join(snapshot.damaged)}: {closed or 'not as it was written'}"


def _ours(snapshot: Snapshot) -> Iterator[str]:
    """Of what the snapshot was loaded without, what differs from what we wrote; where
    somebody wrote it anew, and the same, it is his from now on."""
    known = noted(_log(snapshot.path))
    for version, names in checkpoints(snapshot.path).items():
        for name in set(names) & set(snapshot.damaged) & known.keys():
            if _is_his(snapshot.path, version, name, known[name]):
                forget(_log(snapshot.path), {name})
            else:
                yield name


def _is_his(path: str, version: int, name: str, known: Checksum) -> bool:
    if not written_anew(os.path.join(_log(path), name), known):
        return False
    try:
        state = read_version(path, version, [name], {})
        return (
            library.opens(path)
            and difference(state, load_version(path, version, without=version)) is None
        )
    except _UNREADABLE:
        return False


def is_known(snapshot: Snapshot) -> bool:
    """Whether the newest checkpoint, if there is one, was proven."""
    _, names = _newest(snapshot)
    return {*names} <= noted(_log(snapshot.path)).keys()


def prove_checkpoint(snapshot: Snapshot) -> str | None:
    """Look at a checkpoint that nobody has proven: one that tells what the entries do,
    and opens, is known from now on. Another one is moved aside; one sentence if so.

    Where the entries are gone nothing is proven, and it is read as it is; so is one of
    a kind that is new to us and not to the library.
    """
    version, names = _newest(snapshot)
    if is_known(snapshot) or TRANSACTIONS_EXPIRE in snapshot.configuration:
        return None
    path = snapshot.path
    found = {name: measure(os.path.join(_log(path), name)) for name in names}
    closed = library.why_closed(path)
    try:
        differing = _differing(snapshot, version, names, found)
        if differing is None and os.path.exists(begun(path, version)):
            differing = "it was not completed"  # it may lack what left
        if differing is None and closed is None:
            _keep(path, found)
            return None
        load_version(path, snapshot.version, without=version)  # so it may go
    except (LakehouseError, ValueError):
        return None
    moved = _stash(path, {*names, HINT})
    if not library.opens(path):
        unstash(path, moved)
        return None
    return f"{', '.join(names)}: {closed or differing}"


def begun(path: str, version: int) -> str:
    """What says that we have not completed the checkpoint of a version."""
    return os.path.join(_log(path), f".{version:020d}.checkpoint.begun")


def _keep(path: str, found: dict[str, Checksum]) -> None:
    if os.path.isdir(os.path.join(_log(path), SIDECARS)):
        return  # what these say is not measured
    note(_log(path), found)


def _newest(snapshot: Snapshot) -> tuple[int, list[str]]:
    """The newest checkpoint of what was followed; (-1, []) if there is none."""
    for version, names in checkpoints(snapshot.path).items():
        if version <= snapshot.version:
            return version, names
    return -1, []


def _differing(
    snapshot: Snapshot, version: int, names: list[str], found: dict[str, Checksum]
) -> str | None:
    """What a checkpoint does not tell as the entries do. Raises LakehouseError where
    these are gone, and ValueError where it cannot be read."""
    path, other = snapshot.path, snapshot
    if snapshot.checkpoint == version:  # from which it was loaded
        other = load_version(path, snapshot.version, without=version)
    differing = difference(read_version(path, snapshot.version, names, found), other)
    return differing and f"the entries tell otherwise: {differing}"


def stash_checkpoint(snapshot: Snapshot, version: int) -> list[str]:
    """Move a checkpoint aside, if the log without it tells its version, and what was
    followed; the names of what was moved."""
    names = checkpoints(snapshot.path).get(version)
    try:
        if names is None or not _is_known_without(snapshot, version, names):
            return []
    except _UNREADABLE:
        return []
    return _stash(snapshot.path, {*names, HINT})


def _is_known_without(snapshot: Snapshot, version: int, names: list[str]) -> bool:
    """Whether the log without a checkpoint tells its version, and what was followed.
    Raises LakehouseError and OSError where it tells none."""
    other = load_version(snapshot.path, snapshot.version, without=version)
    if difference(other, snapshot) is not None:
        return False
    if other.checkpoint < version:
        return True  # by way of that version
    # What a newer one tells says nothing of those before.
    before = load_version(snapshot.path, version, without=version)
    try:
        state = read_version(snapshot.path, version, names, {})
    except ValueError:
        return True
    return difference(state, before) is None


def difference(state: Snapshot, known: Snapshot) -> str | None:
    """What one state says otherwise than another; None: nothing.

    Its checkpoint may have no statistics at all, as its owner can choose. Ends
    that are only claimed do not count, where those who know say so: behind an end that
    is too low a true one looks like a claim.
    """
    if state.version != known.version:
        return "the version"
    if state.files.keys() != known.files.keys():
        return "which files there are"
    odd = [path for path, file in state.files.items() if file != known.files[path]]
    if odd and not _lack_statistics(state, known, odd):
        return f"the file {odd[0]}"
    said, true = (
        {name: n for name, n in one.transactions.items() if name not in known.claims}
        for one in (state, known)
    )
    if said != true:
        return "where partitions end"
    if plain_protocol(state.protocol) != plain_protocol(known.protocol):
        return "the protocol"
    if plain_metadata(state.metadata) != plain_metadata(known.metadata):
        return "the metadata"
    return None


def _lack_statistics(state: Snapshot, known: Snapshot, paths: Iterable[str]) -> bool:
    """Whether these files differ by their statistics alone, and the checkpoint has
    none; entries behind it have them of theirs all the same."""
    behind = _added_behind(state)
    if any(f.is_bounded for path, f in state.files.items() if path not in behind):
        return False
    some = [(state.files[path], known.files[path]) for path in paths]
    return all(not one.is_bounded and _is_same_file(one, other) for one, other in some)


def _added_behind(state: Snapshot) -> set[str]:
    """The files that the entries behind a checkpoint add; none where there is none."""
    found = set[str]()
    if state.checkpoint >= 0:
        for version in range(state.checkpoint + 1, state.version + 1):
            with suppress(FileNotFoundError):  # cleaned away meanwhile
                commit = parse_commit(version, read_entry(state.path, version))
                found.update(file.path for file in commit.adds)
    return found


def _is_same_file(one: DataFile, other: DataFile) -> bool:
    """Whether they are the same but for statistics."""
    return one[:3] == other[:3] and one.vector == other.vector


def plain_protocol(said: Protocol) -> Protocol:
    """The same, whatever the order of its features."""
    readers, writers = (
        tuple(sorted(said.reader_features)), tuple(sorted(said.writer_features)),
    )  # fmt: skip
    return Protocol(said.reader, said.writer, readers, writers)


def plain_metadata(said: Metadata | None) -> object:
    """What of it counts, however its schema is written."""
    if said is None:
        return None
    schema = said.schema_string
    with suppress(ValueError):
        schema = json.loads(said.schema_string)
    return said.id, said.partition_columns, dict(said.configuration), schema


def _stash(path: str, names: Iterable[str]) -> list[str]:
    directory, moved = _log(path), []
    for name in sorted(names):
        place = os.path.join(directory, name)
        with suppress(FileNotFoundError):
            os.replace(place, f"{place}.damaged")
            moved.append(name)
    sync_directory(directory)
    return moved


def unstash(path: str, moved: Iterable[str]) -> None:
    """Move back what was put aside."""
    directory = _log(path)
    for name in moved:
        place = os.path.join(directory, name)
        with suppress(FileNotFoundError):
            os.replace(f"{place}.damaged", place)
    sync_directory(directory)


def _log(path: str) -> str:
    return os.path.join(path, LOG_DIRECTORY)
