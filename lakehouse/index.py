"""Offset -> file: which data files of a partition hold an offset, or what follows it.

The problem: an offset must find its file among a million at once, while commits add and
remove some; and files are not always disjoint: an owner's OPTIMIZE may write files
whose ranges overlap. The idea: the files of a partition in order, in blocks of some
hundred, with a running maximum of the last offsets inside of each block and over the
blocks; it only grows, so two binary searches find the first *cluster*, a run of files
that overlap each other. Nearly always a cluster is one file. What is published is never
changed: a commit makes the blocks anew that it touches, and shares all others with
whoever still reads the version before.

The index comes from the log's statistics alone; a file without them reaches from end to
end and makes one cluster of the whole partition, which is slow and right.

The price: a commit copies the list of a partition's blocks, four thousand for a million
files; no operation but listing all looks at each file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, overload

from lakehouse.log.actions import DataFile

Cluster = tuple[DataFile, ...]
"""Files whose offset ranges overlap; those of two clusters never do."""

BLOCK_FILES: Final = 256
_Order = tuple[int, int, str]


class _Block(NamedTuple):
    """Adjacent files; ``reach``: the highest last offset up to each of them."""

    files: Cluster
    reach: tuple[int, ...]

    @classmethod
    def of(cls, files: Sequence[DataFile]) -> "_Block":
        last_offsets = (file.last_offset for file in files)
        return cls(tuple(files), tuple(accumulate(last_offsets, max)))

    def with_last(self, files: Sequence[DataFile]) -> "_Block":
        """These behind all others."""
        last_offsets = [file.last_offset for file in files]
        more = accumulate(last_offsets, max, initial=self.reach[-1])
        return _Block(self.files + tuple(files), self.reach[:-1] + tuple(more))


class PartitionFiles(Sequence[DataFile]):
    """The files of one Kafka partition, by first offset. Immutable."""

    __slots__ = ("_blocks", "_count", "_firsts", "_reach", "size_bytes")

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        ordered = sorted(files, key=_order)
        self.size_bytes = sum(file.size for file in ordered)
        self._count = len(ordered)
        self._blocks = _cut(ordered)
        self._firsts = [_order(block.files[0]) for block in self._blocks]
        highest = (block.reach[-1] for block in self._blocks)
        self._reach = list(accumulate(highest, max))

    def _with(self, span: slice, blocks: list[_Block]) -> "PartitionFiles":
        """Other blocks in the place of a span of them; all else is shared."""
        new = PartitionFiles.__new__(PartitionFiles)
        new._count = self._count + _sum(blocks) - _sum(self._blocks[span])
        new.size_bytes = self.size_bytes
        new._blocks = self._blocks.copy()
        new._blocks[span] = blocks
        new._firsts = self._firsts.copy()
        new._firsts[span] = [_order(block.files[0]) for block in blocks]
        new._reach = self._reach[: span.start]
        for n in range(span.start, len(new._blocks)):
            old = n - len(new._blocks)  # of those behind the span, counted from the end
            last = new._blocks[n].reach[-1]
            reach = max(last, new._reach[-1]) if new._reach else last
            if old >= span.stop - len(self._blocks) and reach == self._reach[old]:
                new._reach += self._reach[old:]
                break
            new._reach.append(reach)
        return new

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DataFile]:
        for block in self._blocks:
            yield from block.files

    @overload
    def __getitem__(self, at: int) -> DataFile: ...
    @overload
    def __getitem__(self, at: slice) -> list[DataFile]: ...
    def __getitem__(self, at: int | slice) -> DataFile | list[DataFile]:
        return self.files[at]

    @property
    def files(self) -> list[DataFile]:
        """All of them, in a list of their own: O(files)."""
        return list(self)

    @property
    def first_offset(self) -> int | None:
        """Lowest offset that a file may hold, at least 0; None without files."""
        return max(0, self._firsts[0][0]) if self._firsts else None

    @property
    def last_offset(self) -> int:
        """Highest offset that a file may hold; -1 without files."""
        return self._reach[-1] if self._reach else -1

    def changed(
        self, gone: Collection[DataFile], come: Collection[DataFile]
    ) -> "PartitionFiles":
        """Without the ones, which are in it, and with the others, which are not."""
        added = sorted(come, key=_order)
        changed = self._edited(gone, added) if gone else self._appended(added)
        sizes = sum(file.size for file in come) - sum(file.size for file in gone)
        changed.size_bytes = self.size_bytes + sizes
        return changed

    def _appended(self, added: list[DataFile]) -> "PartitionFiles":
        """With files that come behind all others, as they do nearly always."""
        last = self._blocks[-1] if self._blocks else None
        if not added or last is None or _order(added[0]) < _order(last.files[-1]):
            return self._edited((), added)
        room = max(0, BLOCK_FILES - len(last.files))
        grown = last.with_last(added[:room]) if room else last
        end = len(self._blocks)
        return self._with(slice(end - 1, end), [grown, *_cut(added[room:])])

    def _edited(
        self, gone: Iterable[DataFile], added: Iterable[DataFile]
    ) -> "PartitionFiles":
        left, come = self._by_block(gone), self._by_block(added)
        touched = left.keys() | come.keys()
        first = max(0, min(touched, default=0) - 1)
        span = slice(first, min(len(self._blocks), max(touched, default=0) + 2))
        blocks: list[_Block] = []
        for n in range(first, max(span.stop, 1)):
            known = self._blocks[n] if self._blocks else _Block.of(())
            if n not in touched:
                _join(blocks, known)
                continue
            without = {file.path for file in left.get(n, ())}
            rest = [file for file in known.files if file.path not in without]
            for block in _cut(sorted([*rest, *come.get(n, ())], key=_order)):
                _join(blocks, block)
        return self._with(span, blocks)

    def _by_block(self, files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
        """Number of a block -> which of the files are in it, or belong there."""
        found: dict[int, list[DataFile]] = {}
        for file in files:
            n = max(0, bisect_right(self._firsts, _order(file)) - 1)
            found.setdefault(n, []).append(file)
        return found

    def cluster(self, offset: int) -> Cluster | None:
        """The first cluster that may hold ``offset`` or a later one."""
        return next(self.clusters(offset), None)

    def clusters(self, offset: int) -> Iterator[Cluster]:
        """All clusters from ``offset`` on, in order."""
        group: list[DataFile] = []
        reach = 0
        for file in self._from(*self._start(offset)):
            if group and file.first_offset > reach:
                yield tuple(group)
                group = []
            reach = max(reach, file.last_offset) if group else file.last_offset
            group.append(file)
        if group:
            yield tuple(group)

    def _start(self, offset: int) -> tuple[int, int]:
        """Block, and place in it, where the cluster of `cluster` begins."""
        n = bisect_left(self._reach, offset)
        if n == len(self._blocks):
            return n, 0
        at = bisect_left(self._blocks[n].reach, offset)
        while n >= 0 and self._reach_before(n, at) >= self._first(n, at):
            n, at = (n, at - 1) if at else (n - 1, len(self._blocks[n - 1].files) - 1)
        return n, at

    def _first(self, n: int, at: int) -> int:
        return self._blocks[n].files[at].first_offset

    def _reach_before(self, n: int, at: int) -> float:
        """The highest last offset of all files before this one."""
        before = self._reach[n - 1] if n else float("-inf")
        return max(before, self._blocks[n].reach[at - 1]) if at else before

    def _from(self, n: int, at: int) -> Iterator[DataFile]:
        for block in islice(self._blocks, n, None):
            yield from islice(block.files, at, None)
            at = 0

    def before(self, end: int) -> "PartitionFiles":
        """Without the files that begin at ``end`` or later; itself if there is none."""
        if not self._blocks or self._blocks[-1].files[-1].first_offset < end:
            return self
        n = max(0, bisect_left(self._firsts, (end,)) - 1)
        at = bisect_left(self._blocks[n].files, end, key=attrgetter("first_offset"))
        gone = sum(file.size for file in self._from(n, at))
        rest = [_Block.of(self._blocks[n].files[:at])] if at else []
        cut = self._with(slice(n, len(self._blocks)), rest)
        cut.size_bytes = self.size_bytes - gone
        return cut


def _order(file: DataFile) -> _Order:
    return file.first_offset, file.last_offset, file.path


def _sum(blocks: Iterable[_Block]) -> int:
    return sum(len(block.files) for block in blocks)


def _cut(files: Sequence[DataFile]) -> list[_Block]:
    """Files in their order as blocks."""
    starts = range(0, len(files), BLOCK_FILES)
    return [_Block.of(files[n : n + BLOCK_FILES]) for n in starts]


def _join(blocks: list[_Block], block: _Block) -> None:
    """Put a block behind others; into the last of them if both are small, so that the
    blocks become fewer as the files do."""
    if not block.files:
        return
    if blocks and len(blocks[-1].files) + len(block.files) <= BLOCK_FILES // 2:
        blocks[-1] = blocks[-1].with_last(block.files)
    else:
        blocks.append(block)


class _State(Protocol):
    """A table at one version: a `Snapshot`."""

    @property
    def version(self) -> int: ...
    @property
    def files(self) -> Mapping[str, DataFile]: ...


class OffsetIndex:
    """Partition -> its files, at one version of the table. Immutable."""

    __slots__ = ("partitions", "version")

    def __init__(self, version: int, partitions: Mapping[int, PartitionFiles]) -> None:
        self.version = version
        self.partitions = partitions

    @classmethod
    def of(cls, state: "_State") -> "OffsetIndex":
        """The index of a whole snapshot: O(files). A snapshot keeps one."""
        grouped = _by_partition(state.files.values())
        files = {p: PartitionFiles(group) for p, group in grouped.items()}
        return cls(state.version, files)

    def changed(
        self, version: int, gone: Collection[DataFile], come: Collection[DataFile]
    ) -> "OffsetIndex":
        """The index of ``version``: without the ones, with the others."""
        left, added = _by_partition(gone), _by_partition(come)
        partitions = dict(self.partitions)
        for p in left.keys() | added.keys():
            before = partitions.get(p, _NOTHING)
            files = before.changed(left.get(p, ()), added.get(p, ()))
            if files:
                partitions[p] = files
            else:
                partitions.pop(p, None)
        return OffsetIndex(version, partitions)

    def has_files_of(self, other: "OffsetIndex") -> bool:
        """Whether both have the same files, as far as the log describes them."""
        if self.partitions.keys() != other.partitions.keys():
            return False
        theirs = other.partitions
        return all(
            mine is theirs[p] or mine.files == theirs[p].files
            for p, mine in self.partitions.items()
        )

    def files_of(self, partition: int) -> PartitionFiles:
        """The files of a partition; none if it has none."""
        return self.partitions.get(partition, _NOTHING)


_NOTHING: Final = PartitionFiles()


def _by_partition(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    grouped: dict[int, list[DataFile]] = {}
    for file in files:
        grouped.setdefault(file.partition, []).append(file)
    return grouped
