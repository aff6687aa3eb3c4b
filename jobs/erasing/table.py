"""Erasing rows from a topic's table: from what it is, and from all that it was.

The problem: rows that are to be forgotten must leave the table as it is now, by a
commit that can be refused, and every older version of it, whose files lie beside; and
whoever is killed in between must be able to begin anew. The idea: first it is looked at
(`look`), which changes nothing and says what would be done; then files that the log
names are written anew, some at a time, each time with one commit (``LAKELOG ERASE``)
and the old ones deleted at once; and last what no version names any more is deleted.
Of these files some have such a row only below a deletion vector: an older version, as
an UPDATE marks it, that nothing shows but the offset in another file. They come first.
What was done is found to be done by the next look. The compactor stands back meanwhile.

The price: whoever asks for an older version of the table, or reads it as a stream and
is behind, finds that files are missing, as after a VACUUM.

One rule says which files are deleted: a file that such a row was found in, and one that
nobody can look into if it is dead by what the log or its name says. All else that
cannot be looked into stays, and is told.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from broker.failpoints import passing
from jobs.erasing.partitions import CHANGES, Partitions, partitions_of
from jobs.erasing.rewrite import marked_offsets, taken_rows, what_stays, without
from jobs.erasing.search import (
    Found,
    Offsets,
    Search,
    at_offsets,
    data_files,
    distinct,
    offsets_by_partition,
)
from jobs.merging.merger import new_file
from jobs.merging.names import span_of
from jobs.merging.order import NotMergeable
from jobs.merging.room import NoRoom
from jobs.rows import Written, discard
from lakehouse.durable import sync_directory
from lakehouse.errors import CommitRefused, LakehouseError
from lakehouse.in_flight import AHEAD_MS, is_begun
from lakehouse.location import check_contained, path_inside
from lakehouse.log.actions import DataFile, reported
from lakehouse.log.commit import replace_files
from lakehouse.log.delta_log import Snapshot, load, table_ends
from lakehouse.log.ours import why_not_cleaned
from lakehouse.new_file import NewFile
from lakehouse.owners_columns import all_columns, wide_enough

FILES_A_COMMIT: Final = 32
GATHER_S: Final = AHEAD_MS / 3_000
"""After so long no further file is written for a commit: each may wait for three times
as long (`lakehouse.in_flight`), and one more was begun just before."""
SAME_OFFSETS: Final = "it has their offsets, and nobody knows of which partition it is"
OWNERS_WRITE_S: Final = 3_600
"""A file that no commit names may be an owner's who is about to; for so long."""


class NotErased(Exception):
    """Nothing can be erased, or no more; the message is a sentence for people."""


class Look(NamedTuple):
    """What stands in a table's directory of what is to be erased."""

    table: Snapshot
    live: Sequence[tuple[DataFile, Offsets]]
    """Files of the table, and which of their offsets match."""
    marked: Sequence[DataFile]
    """Files of the table that have such rows only below their deletion vectors: nothing
    shows that but the offsets in other files, or they have none."""
    past: Sequence[str]
    """Files that only older versions name, or none; paths below the table."""
    by_offset: Sequence[str]
    """Those of them that nothing shows but the offsets in other files."""
    kept: Mapping[str, str]
    """What may have such rows and stays, by path below the table -> why."""
    partitions: Partitions
    """Of the files that were searched."""

    @property
    def unsure(self) -> list[str]:
        """One sentence for each of these."""
        return [f"{path} {why}" for path, why in sorted(self.kept.items())]

    @property
    def rows(self) -> dict[int, int]:
        """Partition -> rows of the table that match."""
        found = dict[int, int]()
        for file, offsets in self.live:
            partition = reported(file.partition)
            found[partition] = found.get(partition, 0) + len(offsets)
        return dict(sorted(found.items()))

    @property
    def past_files(self) -> dict[int, int]:
        """Partition -> files that have such rows of older versions alone."""
        marked = [file.relative_path for file in self.marked]
        return self._by_partition([*marked, *self.past])

    @property
    def kept_files(self) -> dict[int, int]:
        """Partition -> what is kept, in files and directories."""
        return self._by_partition(self.kept)

    def _by_partition(self, paths: Iterable[str]) -> dict[int, int]:
        found = (self.partitions.get(path) for path in paths)
        return dict(Counter(-1 if p is None else reported(p) for p in found))


def check_erasable(root: str, topic_id: str) -> Snapshot:
    """The table as it is. Raises NotErased, or LakehouseError if it cannot be read, or
    if another disk is in the place of its own."""
    check_contained(root)
    table = load(root)
    if table.topic_id != topic_id:
        raise NotErased(f"the table at {root} is not this topic's")
    why = table.torn or table.unreadable
    why = why or why_not_cleaned(table.protocol, table.metadata)
    outside = [
        file.relative_path
        for file in table.files.values()
        if path_inside(root, file.relative_path) is None
    ]
    if why is None and outside:
        why = f"{outside[0]} does not lie in it"
    if why is not None:
        raise NotErased(f"rows cannot leave the table at {root}: {why}")
    return table


def look(root: str, topic_id: str, search: Search) -> Look:
    """Find what is to be erased; changes nothing. Raises NotErased where the files of
    the table do not tell, and LakehouseError."""
    table = check_erasable(root, topic_id)
    live = {file.relative_path: file for file in table.files.values()}
    removed = table.left.keys()
    listed = data_files(root, live.keys() | removed)
    elsewhere = live.keys() - set(listed.files)
    if elsewhere:
        raise NotErased(
            f"{min(elsewhere)} is of the table, and not by that name among the Parquet "
            "files in its directory: let it be written anew first (OPTIMIZE)"
        )
    partitions = partitions_of(table, listed.files)
    found = search(root, partitions)
    _check_live(root, found, live)
    _check_once(root, found, live)
    wanted = offsets_by_partition(found, partitions)
    doubts = _past(root, found, wanted, partitions, live)
    shown = found.offsets.keys() | found.nameless.keys()
    kept = {
        path: said
        for path, doubt in doubts.items()
        if (said := _why_kept(table, path, path in removed, doubt))
    }
    past = [path for path in sorted(doubts) if path not in kept]
    marked = [live[p] for p in sorted(found.nameless.keys() & live.keys())
              if p not in found.offsets]  # fmt: skip
    marked += _marked(
        root, wanted, [file for p, file in live.items() if p not in shown]
    )
    return Look(
        table,
        [(live[path], offsets) for path, offsets in sorted(found.offsets.items())
         if path in live],
        marked,
        past,
        [path for path in past if path not in shown],
        kept | {path: _doubtful(why) for path, why in listed.unsearched.items()},
        partitions,
    )  # fmt: skip


def _check_live(root: str, found: Found, live: Mapping[str, DataFile]) -> None:
    for path, why in found.unreadable.items():
        if path in live:
            raise NotErased(f"{path} cannot be searched: {why}")
    for path in sorted(found.nameless.keys() & live.keys()):
        count = len(np.setdiff1d(found.nameless[path], _taken(root, live[path])))
        if count:
            raise NotErased(
                f"{path} has {count} such rows without an offset, its owner's, and no "
                "records: delete them there first"
            )


def _taken(root: str, file: DataFile) -> Any:
    """Raises NotErased where nobody knows which of its rows are deleted."""
    try:
        return taken_rows(root, file)
    except (LakehouseError, OSError, ValueError) as e:
        raise NotErased(f"{file.relative_path} cannot be searched: {e}") from e


def _check_once(root: str, found: Found, live: Mapping[str, DataFile]) -> None:
    """Raise NotErased where a row of a file in the table cannot be told from another
    one that has its offset."""
    for path in sorted(found.offsets.keys() & live.keys()):
        try:
            what_stays(root, live[path], found.offsets[path])
        except (
            NotMergeable, LakehouseError, OSError, ValueError, KeyError,
            pa.ArrowException,
        ) as e:  # fmt: skip
            raise NotErased(f"{path}: {e}") from e


def _marked(
    root: str, wanted: Mapping[int | None, Offsets], files: Iterable[DataFile]
) -> list[DataFile]:
    """Those of the table's files that have an older version of such a row below their
    deletion vectors: an UPDATE leaves it there. What has one of an unknown partition's
    offsets is among them: nobody reads the rows that leave it. Raises NotErased."""
    nowhere = distinct(())
    found = []
    for file in files:
        near = [wanted.get(p, nowhere) for p in (file.partition, None)]
        if file.vector is None or not any(map(len, near)):
            continue
        try:
            offsets = marked_offsets(root, file)
        except (LakehouseError, OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise NotErased(f"{file.relative_path} cannot be searched: {e}") from e
        if np.isin(offsets, np.concatenate(near)).any():
            found.append(file)
    return found


def _past(
    root: str,
    found: Found,
    wanted: Mapping[int | None, Offsets],
    partitions: Partitions,
    live: Collection[str],
) -> dict[str, str | None]:
    """The files that have such a row, or may have one, of those that are not in the
    table -> why nobody knows; None: such a row was found in it.

    An offset says which row it is only with the partition; where nobody knows that of
    the file that matches, or of the other, it may be another row.
    """
    everywhere, nowhere = distinct(wanted.values()), distinct(())
    rest = {path: p for path, p in partitions.items() if path not in live}
    older = at_offsets(root, {
        path: wanted[p] for path, p in rest.items() if p is not None and p in wanted
    })  # fmt: skip
    sure = (found.offsets.keys() | found.nameless.keys()) - found.unreadable.keys()
    sure |= older.offsets.keys()
    others: dict[str, Offsets] = {
        path: everywhere if p is None else wanted.get(None, nowhere)
        for path, p in rest.items()
        if path not in sure
    }
    perhaps = at_offsets(
        root, {path: some for path, some in others.items() if len(some)}
    )
    doubts: dict[str, str | None] = dict.fromkeys(perhaps.offsets, SAME_OFFSETS)
    doubts |= {**perhaps.unreadable, **older.unreadable, **found.unreadable}
    doubts |= dict.fromkeys(sure)
    return {path: doubts[path] for path in rest if path in doubts}


def _why_kept(
    table: Snapshot, path: str, is_removed: bool, doubt: str | None
) -> str | None:
    """Why a file that is not in the table is not to be deleted all the same: nobody
    else may know what it holds. (What a killed worker had begun stands elsewhere.)
    ``doubt``: why nobody knows whether it has such a row."""
    if is_begun(path) or is_removed:
        return None
    span = span_of(path)
    if span is not None:
        partition, _, end = span
        if end <= table_ends(table).get(partition, 0):
            return None
        return (
            "has records that are not in the table: the commit that named it is lost; "
            "put that back, or delete the file"
        )
    try:
        age_s = time.time() - os.path.getmtime(os.path.join(table.path, path))
    except OSError:
        return None
    if doubt is not None:
        return _doubtful(doubt)
    if age_s >= OWNERS_WRITE_S or path.startswith(CHANGES + os.sep):
        return None
    return (
        "appeared within the last hour, and no commit names it: if it is no owner's "
        "who is about to, delete it"
    )


def _doubtful(why: str) -> str:
    return f"may have such rows: {why}; take them out of it by hand"


def erase(
    found: Look, topic_id: str, request: str, attempts: Iterator[str], spill: str
) -> None:
    """Take out of the table what was found, and delete the files that had it. What only
    an offset shows goes before what has the offset: whoever is killed in between finds
    the rest again.

    ``request`` is written into the table's log; ``attempts`` as of
    `jobs.erasing.rewrite.without`, one for each file. Raises NotErased where rows are
    no records, or the disk is nearly full; CommitRefused where somebody changed a file
    meanwhile: look again; LocationRefused where another disk is in the place of the
    table's.
    """
    os.makedirs(spill, exist_ok=True)
    delete_dead(found.table.path, found.by_offset)
    passing("erase.after_older")
    marked = [(file, distinct(())) for file in found.marked]
    for rest in (*_by_partition(marked), *_by_partition(found.live)):
        while rest:
            check_contained(found.table.path)
            try:
                count = _replace(found.table, topic_id, rest, request, attempts, spill)
            except CommitRefused:
                raise
            except NoRoom as e:
                raise NotErased(f"{e}: make room, and ask again") from e
            except (LakehouseError, ValueError, pa.ArrowException) as e:
                raise NotErased(str(e)) from e
            rest = rest[count:]
    delete_dead(found.table.path, found.past)


def _by_partition(
    some: Iterable[tuple[DataFile, Offsets]],
) -> list[list[tuple[DataFile, Offsets]]]:
    """The same, the largest files first."""
    found = dict[int, list[tuple[DataFile, Offsets]]]()
    for file, offsets in sorted(some, key=lambda one: -one[0].size):
        found.setdefault(file.partition, []).append((file, offsets))
    return list(found.values())


def delete_dead(root: str, paths: Collection[str]) -> None:
    """Delete files that left the table. Raises CommitRefused if an owner took one of
    them back meanwhile: RESTORE; and LocationRefused if it is not there that was
    looked."""
    check_contained(root)
    files = load(root, keep_removed=False).files.values()
    back = {file.relative_path for file in files}.intersection(paths)
    if back:
        raise CommitRefused(f"{min(back)} is of the table at {root} again")
    delete(root, paths)


def _replace(
    table: Snapshot,
    topic_id: str,
    some: Sequence[tuple[DataFile, Offsets]],
    request: str,
    attempts: Iterator[str],
    spill: str,
) -> int:
    """One commit, and the bytes of what it replaced: the first of these files. Returns
    how many; if it is refused, what was written for it is deleted."""
    root = table.path
    assert table.metadata is not None, "it was looked at"
    schema = table.metadata.schema_string
    columns = wide_enough(all_columns(schema), some[0][0].partition)
    count, new = _write(root, some, columns, attempts, spill)
    gone = [file for file, _ in some[:count]]
    rows = sum(len(offsets) for _, offsets in some[:count])
    try:
        replace_files(
            root, topic_id, gone, new, schema=schema, now_ms=int(time.time() * 1000),
            erased=(request, rows), snapshot=table,
            on_written=lambda: passing("erase.after_entry"),
            on_committed=lambda: passing("erase.after_commit"),
        )  # fmt: skip
    except CommitRefused:  # after any other error it may be there all the same
        _discard(root, new)
        raise
    passing("erase.before_delete")
    delete_dead(root, [file.relative_path for file in gone])
    passing("erase.after_delete")
    return count


def _write(
    root: str,
    some: Sequence[tuple[DataFile, Offsets]],
    columns: pa.Schema,
    attempts: Iterator[str],
    spill: str,
) -> tuple[int, list[NewFile]]:
    """Write the first of these files anew, as many as one commit may have: those that
    are written soon enough for all to be young when it comes. None takes longer than
    those before it, if the largest come first. Returns how many, and what was made."""
    new, count, began_s = list[NewFile](), 0, time.monotonic()
    try:
        for file, offsets in some[:FILES_A_COMMIT]:
            written = _without(root, file, offsets, columns, next(attempts), spill)
            if written is not None:
                new.append(new_file(file.partition, written))
            passing("erase.after_file")
            count += 1
            if time.monotonic() - began_s >= GATHER_S:
                break
    except Exception:
        _discard(root, new)
        raise
    return count, new


def _without(
    root: str, file: DataFile, gone: Offsets, columns: pa.Schema, attempt: str,
    spill: str,
) -> Written | None:  # fmt: skip
    """Raises NotErased with the name of the file."""
    try:
        return without(root, file, gone, columns, attempt=attempt, spill=spill)
    except (NotMergeable, LakehouseError, ValueError, pa.ArrowException) as e:
        raise NotErased(f"{file.relative_path}: {e}") from e


def _discard(root: str, new: Iterable[NewFile]) -> None:
    for file in new:
        discard(os.path.join(root, file.path))


def delete(root: str, paths: Iterable[str]) -> None:
    """Delete files below a table's directory, durably."""
    directories = set()
    for path in paths:
        place = os.path.join(root, path)
        with suppress(FileNotFoundError):  # who was killed before had come so far
            os.unlink(place)
        directories.add(os.path.dirname(place))
    for directory in directories:
        with suppress(FileNotFoundError):  # a VACUUM removes empty ones
            sync_directory(directory)
