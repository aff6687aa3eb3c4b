"""Some files of a partition become one, or few. Runs in Spark's Python workers.

The problem: what is written here takes the place of what records are in, perhaps of
their only copy; and it must not be in anybody's way while it is written. The idea: rows
are read in order (`order`), written as the files of rounds are, and then the new file
is held against the old ones, read once more: as many rows, each offset once and just
those that were there. Whatever is odd (an offset that is there twice, a row without
one, a value that does not fit its column) leaves the files as they are, with a reason.

It works at the lowest priority, and so many bytes a second.

Nothing here is committed; what a killed worker leaves behind is an orphan.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from broker.failpoints import passing
from jobs.merging.names import continued, ended
from jobs.merging.room import NoRoom, check_room
from jobs.priority import set_worker_niceness
from jobs.rows import Bounds, Failed, Written, discard, sync_written
from lakehouse.durable import sync_file
from lakehouse.in_flight import begin, hidden

Made = TypeVar("Made")
NICENESS: Final = 19
GROUP_BYTES: Final = 16 << 20
PAUSE_S_MAX: Final = 1.0
LOOK_S: Final = 0.1
DISTINCT_SHARE: Final = 2
"""A dictionary pays where each value is there so often."""
_OURS_REPEATING: Final = ("partition", "timestampType", "topic")
_HEADER_KEYS: Final = "headers.list.element.key"
_MIX: Final = 0x9E3779B97F4A7C15


class MergeTask(NamedTuple):
    """``root/path`` is to hold the rows of ``sources``, files of one partition.

    ``columns``: the table's, a ``pa.Schema`` as bytes. ``spill``: a directory for what
    does not fit into memory. ``bytes_per_s``: of what is read; 0: as fast as it goes.
    ``bytes_max``: behind so many, another file is begun (`continued`); 0: all is one.
    """

    root: str
    path: str
    partition: int
    sources: tuple[str, ...]
    columns: bytes
    spill: str
    bytes_per_s: int = 0
    bytes_max: int = 0


class Merged(NamedTuple):
    """The files that are there, in order of offset, durable but not committed."""

    files: tuple[Written, ...]


class Digest(NamedTuple):
    """Of offsets, whatever their order: two that are equal are of the same ones."""

    rows: int = 0
    sum: int = 0


_NOTHING: Final = Digest()


def work(task: MergeTask) -> Merged | Failed:
    """What a Spark task does: `merge_files` at the lowest priority."""
    set_worker_niceness(NICENESS)
    return merge_files(task)


def merge_files(task: MergeTask) -> Merged | Failed:
    """Write the files, synced with their directory; or why they were not."""
    return attempted(task, partial(_merge, task))


class Task(Protocol):
    """What the work of a merge or a clean needs to end well: read-only."""

    @property
    def root(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def spill(self) -> str: ...


def attempted(task: Task, write: Callable[[str, list[str]], Made]) -> Made | Failed:
    """What ``write`` makes, given a directory to spill to and a list for the paths of
    all files that it begins; or why it was not made, without these files."""
    import pyarrow as pa

    from jobs.merging.order import NotMergeable
    from lakehouse.errors import FileVanished, LakehouseError

    spill, written = "", list[str]()
    try:
        os.makedirs(task.spill, exist_ok=True)
        spill = tempfile.mkdtemp(prefix=_spill_prefix(task.root), dir=task.spill)
        return write(spill, written)
    except NoRoom as error:
        return _discarded(task, written, str(error), stale=True)
    except (FileVanished, FileNotFoundError, Stopped) as error:
        return _discarded(task, written, f"gone: {error}", stale=True)
    except (NotMergeable, LakehouseError, OSError, ValueError, pa.ArrowException) as e:
        return _discarded(task, written, str(e) or type(e).__name__, stale=False)
    except BaseException:
        _discarded(task, written, "", stale=True)
        raise
    finally:
        if spill:
            shutil.rmtree(spill, ignore_errors=True)


def drop_spilled(spill: str, root: str) -> None:
    """Delete what killed workers left in ``spill`` of the rows of the table at ``root``
    (and those of the version before, of any table). It is not being written anew."""
    ours = _spill_prefix(root)
    for name in os.listdir(spill) if os.path.isdir(spill) else []:
        if name.startswith(ours) or "-" not in name:
            shutil.rmtree(os.path.join(spill, name), ignore_errors=True)


def _spill_prefix(root: str) -> str:
    """Of a table's directory, whose name may be as long as one can be."""
    return f"{hashlib.sha256(os.path.basename(root).encode()).hexdigest()[:32]}-"


def _discarded(task: Task, written: Sequence[str], why: str, *, stale: bool) -> Failed:
    for path in written:
        discard(os.path.join(task.root, path))
    return Failed(task.path, why, stale)


def _merge(task: MergeTask, spill: str, written: list[str]) -> Merged:
    """Raises what has a file discarded; ``written`` has the paths of all begun."""
    import pyarrow as pa

    from jobs.merging.order import Source, in_order, units_of
    from lakehouse.files.footers import Footers

    schema = pa.ipc.read_schema(pa.py_buffer(task.columns))
    paths = [os.path.join(task.root, source) for source in task.sources]
    footers = Footers()
    rows = sum(unit.group.rows for unit in units_of(paths, footers))
    size = sum(map(os.path.getsize, paths))
    pause = Pause(size, rows, task.bytes_per_s, stop_file(task.spill))
    source = Source(paths, task.partition, schema, pause.after)
    groups = checked(row_groups(in_order(source, footers, spill)), task.partition)
    files = list(_files(task, schema, groups, pause, written))
    targets = [hidden(os.path.join(task.root, path)) for path, _ in files]
    before, after = digest_of(paths), digest_of(targets, rising=True)
    if before != after or after.rows != sum(bounds.rows for _, bounds in files):
        raise ValueError(f"what was written is not what was read: {before}, {after}")
    return Merged(all_shown(task.root, files))


def all_shown(root: str, files: Iterable[tuple[str, Bounds]]) -> tuple[Written, ...]:
    """Files that were written hidden, by path, each in its place: when all are written,
    however long that took, since a VACUUM soon takes what it sees and nothing names."""
    return tuple(
        sync_written(path, os.path.join(root, path), bounds) for path, bounds in files
    )


def _files(
    task: MergeTask,
    schema: Any,
    groups: Iterator[Any],
    pause: "Pause",
    written: list[str],
) -> Iterator[tuple[str, Bounds]]:
    """Write all row groups, in hidden files that are of the size that is wanted but for
    their last row groups, which are still in memory when that is asked."""
    first = next(groups, None)
    while first is not None:
        path = continued(task.path, _first_offset(first)) if written else task.path
        written.append(path)
        target = os.path.join(task.root, path)
        group = chain([first], groups)
        bounds = write_groups(target, schema, group, pause, task.bytes_max)
        first = next(groups, None)
        if first is not None:
            written[-1] = ended(path, _first_offset(first))
            os.rename(hidden(target), hidden(os.path.join(task.root, written[-1])))
        yield written[-1], bounds


def _first_offset(group: Any) -> int:
    return int(group.column("offset")[0].as_py())


class Stopped(OSError):
    """The compactor ends, and waits for nobody."""


def stop_file(spill: str) -> str:
    """What is there once nobody wants the merge any more."""
    return os.path.join(spill, "stop")


class Pause:
    """Keeps to so many bytes a second, and ends the merge that is to stop."""

    def __init__(self, size: int, rows: int, bytes_per_s: int, stop: str) -> None:
        self._stop = stop
        self._s_per_row = size / max(1, rows) / bytes_per_s if bytes_per_s else 0.0
        self._due_s = time.monotonic()

    def after(self, rows: int) -> None:
        """Wait until so many rows more are due; what was slow is not made up for."""
        now = time.monotonic()
        self._due_s = max(self._due_s, now - PAUSE_S_MAX) + rows * self._s_per_row
        while True:
            if os.path.exists(self._stop):
                raise Stopped("the compactor ends")
            left = self._due_s - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_S))


def row_groups(tables: Iterator[Any]) -> Iterator[Any]:
    """The same rows in row groups' sizes."""
    import pyarrow as pa

    from lakehouse.schema import ROW_GROUP_ROWS

    parts: list[Any] = []
    rows = size = 0
    for table in tables:
        for part in _parts(table):
            over = rows + part.num_rows > ROW_GROUP_ROWS or size >= GROUP_BYTES
            if parts and over:
                yield pa.concat_tables(parts).combine_chunks()
                parts, rows, size = [], 0, 0
            parts.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if parts:
        yield pa.concat_tables(parts).combine_chunks()


def _parts(table: Any) -> Iterator[Any]:
    """A table in parts of which some make a row group."""
    from lakehouse.schema import ROW_GROUP_ROWS

    fitting = table.num_rows * GROUP_BYTES // max(1, table.nbytes)
    count = max(1, min(ROW_GROUP_ROWS, fitting))
    for start in range(0, table.num_rows, count):
        yield table.slice(start, count)


def checked(groups: Iterator[Any], partition: int) -> Iterator[Any]:
    """The same, as long as each row is a record of its partition, behind the last."""
    import pyarrow.compute as pc

    from jobs.merging.order import NotMergeable
    from lakehouse.plain import numbers

    last = -1
    for group in groups:
        if group.column("timestamp").null_count:
            raise NotMergeable("it has rows without a timestamp: its owner's")
        partitions = pc.unique(group.column("partition")).to_pylist()
        if partitions != [partition]:
            raise NotMergeable(f"it has rows of the partitions {partitions}")
        offsets = numbers(group.column("offset"))
        twice = offsets[1:][offsets[1:] <= offsets[:-1]]
        if offsets[0] <= last or len(twice):
            offset = offsets[0] if offsets[0] <= last else twice[0]
            raise NotMergeable(f"offset {offset} is there twice")
        last = int(offsets[-1])
        yield group


def write_groups(
    target: str, schema: Any, groups: Iterator[Any], pause: Pause, bytes_max: int = 0,
    bounds: Bounds | None = None,
) -> Bounds:  # fmt: skip
    """Write a hidden file of these row groups, synced, of the first alone until so many
    bytes of it stand on the disk (0: of all). The others are still to come of
    ``groups``."""
    import pyarrow.parquet as pq

    from lakehouse import schema as ours

    bounds, target = bounds or Bounds(), begin(target)
    first = next(groups)
    repeating: Any = _repeating(first)
    flat = [field.name for field in schema if not field.type.num_fields]
    with pq.ParquetWriter(
        target,
        schema,
        compression=ours.COMPRESSION,  # type: ignore[arg-type]
        compression_level=ours.COMPRESSION_LEVEL,
        use_dictionary=repeating,
        column_encoding={
            "offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED",
        },
        write_statistics=[name for name in flat if name not in ("key", "value")],
        write_page_checksum=True,  # soon it is the only copy
    ) as writer:  # fmt: skip
        group: Any
        for group in chain([first], groups):
            check_room(os.path.dirname(target))
            [batch] = group.to_batches()
            bounds.add(batch)
            writer.write_batch(batch, row_group_size=batch.num_rows)
            passing("merge.writing")
            pause.after(batch.num_rows)
            if bytes_max and os.path.getsize(target) >= bytes_max:
                break
    sync_file(target)
    return bounds


def _repeating(group: Any) -> list[str]:
    """The columns whose values repeat so often that a dictionary pays: it costs a
    seventh of all the work where they do not."""
    import pyarrow.compute as pc

    found = [*_OURS_REPEATING, _HEADER_KEYS]
    for field in group.schema:
        if field.type.num_fields or field.name in (*found, "offset", "timestamp"):
            continue
        column = group.column(field.name)
        known = len(column) - column.null_count
        if pc.count_distinct(column).as_py() * DISTINCT_SHARE <= known:
            found.append(field.name)
    return found


def digest_of(paths: Sequence[str], *, rising: bool = False) -> Digest:
    """The digest of the offsets in these files, read once more.

    ``rising``: each must be above the one before. Raises ValueError if one is not, and
    as who reads them does.
    """
    import numpy as np

    from lakehouse.files.repeated import open_parquet
    from lakehouse.plain import numbers

    digest, last = Digest(), -1
    for path in paths:
        with open_parquet(path, buffered=True) as file:
            for batch in file.iter_batches(
                1 << 16, columns=["offset"], use_threads=False
            ):
                offsets = numbers(batch.column(0))
                if rising and (offsets[0] <= last or (np.diff(offsets) <= 0).any()):
                    raise ValueError(f"{path} is not in order")
                last, digest = int(offsets[-1]), digest_of_offsets(offsets, digest)
    return digest


def digest_of_offsets(offsets: Any, before: Digest = _NOTHING) -> Digest:
    """The digest of these offsets and of those before."""
    import numpy as np

    with np.errstate(over="ignore"):
        total = _mixed(offsets.astype(np.uint64)).sum(dtype=np.uint64)
    return Digest(before.rows + len(offsets), (before.sum + int(total)) % (1 << 64))


def _mixed(values: Any) -> Any:
    """Each number as another of 64 bits, as splitmix64 does."""
    import numpy as np

    values = values * np.uint64(_MIX)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
