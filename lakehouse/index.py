"""Offset -> file: which data files of a partition hold an offset, or what follows it.

The problem: an offset must find its file among thousands at once, and files are not
always disjoint: an owner's OPTIMIZE may write files whose ranges overlap. The idea: the
files of a partition sorted by first offset, with a running maximum of the last ones;
both only grow, so two binary searches find the first *cluster*, a run of files that
overlap each other. Nearly always a cluster is one file.

The index comes from the log's statistics alone; a file without them reaches from end to
end and makes one cluster of the whole partition, which is slow and right.

The price: what is published is never changed, so a commit copies two lists of a
partition; ten thousand files cost some tens of microseconds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakehouse.actions import Commit, DataFile
from lakehouse.delta_log import Snapshot

Cluster = tuple[DataFile, ...]
"""Files whose offset ranges overlap; those of two clusters never do."""


class PartitionFiles:
    """The files of one Kafka partition. Immutable."""

    __slots__ = ("_firsts", "_reach", "files", "size_bytes")

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self.files: list[DataFile] = sorted(files, key=_order)
        self._firsts = [file.first_offset for file in self.files]
        self._reach = _running_maximum(self.files, [])
        self.size_bytes = sum(file.size for file in self.files)

    def with_added(self, files: Sequence[DataFile]) -> "PartitionFiles":
        """These files too. Cheap when they come after all others, as they do."""
        added = sorted(files, key=_order)
        if self.files and added and added[0].first_offset < self._firsts[-1]:
            return PartitionFiles([*self.files, *added])
        grown = PartitionFiles.__new__(PartitionFiles)
        grown.files = self.files + added
        grown._firsts = self._firsts + [file.first_offset for file in added]
        grown._reach = self._reach + _running_maximum(added, self._reach[-1:])
        grown.size_bytes = self.size_bytes + sum(file.size for file in added)
        return grown

    @property
    def first_offset(self) -> int | None:
        """Lowest offset that a file may hold, at least 0; None without files."""
        return max(0, self._firsts[0]) if self.files else None

    def cluster(self, offset: int) -> Cluster | None:
        """The first cluster that may hold ``offset`` or a later one."""
        start = bisect_left(self._reach, offset)
        if start == len(self.files):
            return None
        while start and self._reach[start - 1] >= self._firsts[start]:
            start -= 1
        end = start + 1
        while end < len(self.files) and self._firsts[end] <= self._reach[end - 1]:
            end += 1
        return tuple(self.files[start:end])

    def clusters(self, offset: int) -> Iterator[Cluster]:
        """All clusters from ``offset`` on, in order."""
        found = self.cluster(offset)
        while found is not None:
            yield found
            last = max(file.last_offset for file in found)
            found = self.cluster(last + 1)

    def before(self, end: int) -> "PartitionFiles":
        """Without the files that begin at ``end`` or later; itself if there is none."""
        if not self._firsts or self._firsts[-1] < end:
            return self
        return PartitionFiles(self.files[: bisect_left(self._firsts, end)])

    def below(self, offset: int) -> list[DataFile]:
        """Files all of whose rows lie below ``offset``."""
        end = bisect_right(self._firsts, offset)
        return [file for file in self.files[:end] if file.last_offset < offset]


def _order(file: DataFile) -> tuple[int, int]:
    return file.first_offset, file.last_offset


def _running_maximum(files: Sequence[DataFile], before: list[int]) -> list[int]:
    reach = []
    highest = before[0] if before else None
    for file in files:
        highest = (
            file.last_offset if highest is None else max(highest, file.last_offset)
        )
        reach.append(highest)
    return reach


class OffsetIndex:
    """Partition -> its files, at one version of the table. Immutable."""

    __slots__ = ("partitions", "version")

    def __init__(self, version: int, partitions: Mapping[int, PartitionFiles]) -> None:
        self.version = version
        self.partitions = partitions

    @classmethod
    def of(cls, snapshot: Snapshot) -> "OffsetIndex":
        """The index of a whole snapshot."""
        grouped = _by_partition(snapshot.files.values())
        files = {p: PartitionFiles(group) for p, group in grouped.items()}
        return cls(snapshot.version, files)

    def advanced(self, snapshot: Snapshot, commits: Sequence[Commit]) -> "OffsetIndex":
        """The index of ``snapshot``, which ``commits`` brought from this version."""
        if any(commit.removes for commit in commits):
            return self._rebuilt(snapshot, commits)
        added = _by_partition(file for commit in commits for file in commit.adds)
        paths = [file.path for group in added.values() for file in group]
        if len(set(paths)) < len(paths) or self._holds(paths):
            return OffsetIndex.of(snapshot)
        partitions = dict(self.partitions)
        for p, files in added.items():
            partitions[p] = partitions.get(p, _NOTHING).with_added(files)
        return OffsetIndex(snapshot.version, partitions)

    def _rebuilt(self, snapshot: Snapshot, commits: Sequence[Commit]) -> "OffsetIndex":
        """The same, but only the partitions are sorted whose files are not as they
        were: a merge changes one."""
        touched = {file.partition for commit in commits for file in commit.adds}
        files = {}
        for p, group in _by_partition(snapshot.files.values()).items():
            known = self.partitions.get(p, _NOTHING)
            is_same = p not in touched and len(known.files) == len(group)
            files[p] = known if is_same else PartitionFiles(group)
        return OffsetIndex(snapshot.version, files)

    def _holds(self, paths: Sequence[str]) -> bool:
        """Whether a file is added again, as when its statistics are computed anew."""
        wanted = set(paths)
        return any(
            file.path in wanted
            for files in self.partitions.values()
            for file in files.files
        )

    def has_files_of(self, other: "OffsetIndex") -> bool:
        """Whether both have the same files, as far as the log describes them."""
        if self.partitions.keys() != other.partitions.keys():
            return False
        theirs = other.partitions
        return all(mine.files == theirs[p].files for p, mine in self.partitions.items())

    def files_of(self, partition: int) -> PartitionFiles:
        """The files of a partition; none if it has none."""
        return self.partitions.get(partition, _NOTHING)


_NOTHING = PartitionFiles()


def _by_partition(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    grouped: dict[int, list[DataFile]] = {}
    for file in files:
        grouped.setdefault(file.partition, []).append(file)
    return grouped
