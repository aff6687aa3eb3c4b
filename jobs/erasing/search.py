"""Which rows of which data files are to be erased.

The problem: a row that is to be forgotten stands not only in the files of the table as
it is now. Deletion vectors only mark rows; what merges, cleans and owners replaced lies
beside for as long as it can be time travelled to; change data files have copies. The
idea: every Parquet file in the table's directory is asked, whatever its name is, and
whether the log names it or not; rows of a file are named by their offsets, which merges
and updates leave as they are. So an old version of a row, which itself may not match,
is found by its offset in the files of its partition (`partitions`). What lies in the
directory and is not asked is said.

A key is looked for here; an expression is Spark's (`expression`), on the files
themselves, since a read through Delta would leave out what is only marked as deleted.

The price: all keys of the table are read, and twice when it is proven that none is
left.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.erasing.partitions import Partitions
from lakehouse.errors import LakehouseError
from lakehouse.files.footers import NO_OFFSET, Footers
from lakehouse.log.delta_log import LOG_DIRECTORY
from lakehouse.plain import numbers
from lakehouse.regular import NotAFile, open_file

_ROWS: Final = 10_000
OTHERS: Final = "it has a log of its own, and so is another table's"
LINKED: Final = "it is a link, and what it leads to is elsewhere"
_MAGIC: Final = b"PAR1"
_PARQUET: Final = re.compile(r".*\.parquet(#\d+)?", re.DOTALL)
"""What the library writes has a number behind its name until it is whole."""
Offsets = Any
"""Sorted ``np.int64``."""
Numbers = Any
"""The same, of rows in their file."""


class Listed(NamedTuple):
    """What lies in a table's directory; paths below it."""

    files: list[str]
    """Those that are to be searched: every Parquet file of rows, live or not."""
    unsearched: dict[str, str]
    """What may have such files, or be one -> why nobody looks into it."""


class Found(NamedTuple):
    """What matches in the files of a table."""

    offsets: Mapping[str, Offsets]
    """Path below the table -> offsets of its rows that match; none without any."""
    nameless: Mapping[str, Numbers]
    """Path -> which rows match beside that have no offset; none without any."""
    unreadable: Mapping[str, str]
    """Path -> why nobody knows what it holds."""


Search = Callable[[str, Partitions], Found]
"""Searches these files below a table's directory."""


def data_files(root: str, named: Collection[str] = frozenset()) -> Listed:
    """What there is of Parquet files in a table's directory. ``named``: paths that the
    log has, live or removed; these are files of rows, whatever they look like."""
    paths, unsearched = list[str](), dict[str, str]()

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # cleaned away meanwhile
            unsearched[_below(root, str(error.filename))] = str(error.strerror)

    for directory, names, inside in os.walk(root, onerror=note):
        if directory != root and LOG_DIRECTORY in names:
            unsearched[_below(root, directory)] = OTHERS
            names.clear()
            continue
        names[:] = [name for name in names if name != LOG_DIRECTORY]
        here = [_below(root, os.path.join(directory, name)) for name in inside]
        paths += [path for path in here if path in named or _is_parquet(root, path)]
        paths += [_below(root, one) for one in _links(directory, names)]
    links = set(_links(root, paths))
    files = [path for path in paths if os.path.join(root, path) not in links]
    return Listed(
        sorted(files), unsearched | {_below(root, one): LINKED for one in links}
    )


def _below(root: str, place: str) -> str:
    return os.path.normpath(os.path.relpath(place, root))


def _links(directory: str, names: Iterable[str]) -> list[str]:
    places = [os.path.join(directory, name) for name in names]
    return [place for place in places if os.path.islink(place)]


def _is_parquet(root: str, path: str) -> bool:
    """Whether a file is one, or may be: some engines give it a name without an end."""
    if _PARQUET.fullmatch(os.path.basename(path)):
        return True
    try:
        with open_file(os.path.join(root, path)) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (FileNotFoundError, NotAFile):
        return False
    except OSError:
        return True


def by_key(key: bytes) -> Search:
    """Rows of this key."""
    wanted = pa.scalar(key, pa.binary())

    def matches(batch: Any) -> Any:
        names = batch.schema.names
        if "key" not in names or "offset" not in names:
            raise ValueError("it has no key or no offset")
        return pc.equal(batch.column("key").cast(pa.binary()), wanted)

    return lambda root, paths: _each(root, paths, ["offset", "key"], matches)


def at_offsets(root: str, wanted: Mapping[str, Offsets]) -> Found:
    """Rows at offsets, for each file those that are wanted of it."""
    return joined(
        _each(root, [path], ["offset"], partial(_is_in, offsets))
        for path, offsets in wanted.items()
    )


def joined(found: Iterable[Found]) -> Found:
    """What was found in files that differ, together."""
    offsets, nameless, unreadable = (
        dict[str, Offsets](), dict[str, Numbers](), dict[str, str](),
    )  # fmt: skip
    for one in found:
        offsets |= one.offsets
        nameless |= one.nameless
        unreadable |= one.unreadable
    return Found(offsets, nameless, unreadable)


def offsets_by_partition(
    found: Found, partitions: Partitions
) -> dict[int | None, Offsets]:
    """Partition -> the offsets that match in any of its files."""
    parts = dict[int | None, list[Offsets]]()
    for path, offsets in found.offsets.items():
        parts.setdefault(partitions[path], []).append(offsets)
    return {p: distinct(some) for p, some in parts.items()}


def distinct(parts: Iterable[Offsets]) -> Offsets:
    """All of these offsets, sorted. (Most files have them so: that saves copies.)"""
    found = np.concatenate([np.empty(0, np.int64), *parts])
    return found if (found[1:] > found[:-1]).all() else np.unique(found)


def _each(
    root: str, paths: Iterable[str], columns: list[str], matches: Callable[[Any], Any]
) -> Found:
    offsets, nameless, unreadable = (
        dict[str, Offsets](), dict[str, Numbers](), dict[str, str](),
    )  # fmt: skip
    for path in paths:
        try:
            found, others = _matching(os.path.join(root, path), columns, matches)
        except (LakehouseError, OSError, ValueError, KeyError, pa.ArrowException) as e:
            unreadable[path] = str(e)
            continue
        if len(found):
            offsets[path] = found
        if len(others):
            nameless[path] = others
    return Found(offsets, nameless, unreadable)


def _matching(
    place: str, columns: list[str], matches: Callable[[Any], Any]
) -> tuple[Offsets, Numbers]:
    """The offsets of the rows of a file that match, and the numbers of those that have
    none: eight bytes a row, since all of a file may match."""
    parts, nameless, rows = list[Offsets](), list[Numbers](), 0
    with Footers().open(place, buffered=True) as file:
        for batch in file.iter_batches(_ROWS, columns=columns):
            mask = pc.fill_null(matches(batch), False)
            found = batch.column("offset").filter(mask).cast(pa.int64())
            parts.append(numbers(found.drop_null()))
            if found.null_count:
                nameless.append(rows + _numbers_of_nulls(batch.column("offset"), mask))
            rows += len(batch)
        if rows != file.metadata.num_rows:
            raise ValueError(f"{rows} rows of it are not all")
    return distinct(parts), distinct(nameless)


def _numbers_of_nulls(column: Any, mask: Any) -> Numbers:
    """Which rows of a batch are wanted, and have none."""
    found = pc.indices_nonzero(pc.and_(mask, pc.is_null(column)))
    return numbers(found.cast(pa.int64()))


def _is_in(wanted: Offsets, batch: Any) -> Any:
    """Those of a batch at offsets that are wanted, sorted and at least one."""
    offsets = numbers(batch.column("offset").cast(pa.int64()).fill_null(NO_OFFSET))
    at = np.searchsorted(wanted, offsets)
    return pa.array(wanted[np.minimum(at, len(wanted) - 1)] == offsets)
