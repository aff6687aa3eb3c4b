"""Which files of a partition become one, and when: levels of sizes. Pure.

The problem: freshness makes a file per partition every few seconds. Few and large ones
are wanted, but whoever joins a new file to the large one before it writes all of it
again each time. The idea: adjacent files become one when together they are `GROWTH`
times as large as the largest of them, or when they fill a file of the wanted size; so
each time a byte is written again it is in a file that is `GROWTH` times as large as the
last one, until it is in a full one, which stays. That holds whatever sizes come.

Files whose offsets overlap, or that are in no order inside, are their owner's work
(OPTIMIZE, MERGE, ZORDER). They are slow to read, and become one at once.

The price, simulated for a day of a file every five seconds (`test_plan`): a byte is
written three times all in all, and a partition has some forty files beside full ones
(with a growth of 4 four times and fifteen files, with 32 three times and sixty).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from lakehouse.actions import DataFile
from lakehouse.index import PartitionFiles

GROWTH: Final = 16
FULL: Final = 2
"""A file of more than the wanted size divided by this is full."""
REPAIR_BYTES_MAX: Final = 2 << 30
"""So much is sorted in one go; of more the owner is told."""


class Merge(NamedTuple):
    """Files of one partition, in order of offset, that are to be one.

    ``is_repair``: they are in no order, or overlap.
    """

    partition: int
    files: tuple[DataFile, ...]
    is_repair: bool = False

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


class Rules(NamedTuple):
    """What is asked of a partition's files.

    ``end``: where its table ends; a file that reaches there has its owner's rows.
    ``is_unsorted``: of a file that nothing overlaps. ``barred``: left alone.
    """

    target_bytes: int
    end: int
    is_unsorted: Callable[[DataFile], bool]
    barred: Callable[[DataFile], bool]


def find(files: PartitionFiles, rules: Rules) -> Merge | None:
    """What is to become one next of a partition; None: all is well, or barred."""
    run: list[DataFile] = []
    found: Merge | None = None
    for cluster in files.clusters(0):
        size = sum(file.size for file in cluster)
        if any(_is_barred(file, rules) for file in cluster):
            found = found or _in_run(run, rules.target_bytes)
            run = []
        elif len(cluster) > 1 or rules.is_unsorted(cluster[0]):
            if size <= REPAIR_BYTES_MAX:
                return Merge(cluster[0].partition, cluster, is_repair=True)
            found = found or _in_run(run, rules.target_bytes)
            run = []
        else:
            run.append(cluster[0])
    return found or _in_run(run, rules.target_bytes)


def _is_barred(file: DataFile, rules: Rules) -> bool:
    is_known = file.is_bounded and file.rows > 0 and not file.has_deletion_vector
    return not is_known or file.last_offset >= rules.end or rules.barred(file)


def _in_run(files: Sequence[DataFile], target_bytes: int) -> Merge | None:
    """The first of adjacent sorted files that should be one, the smallest ones first.

    Sizes are looked at by limits that double: those of files up to a limit make runs.
    """
    smallest = min((file.size for file in files), default=0)
    limit = max(1, smallest)
    while files and limit <= 2 * target_bytes:
        most = min(limit, target_bytes // FULL)
        for start, end in _up_to(files, most):
            taken = _first_due(files[start:end], target_bytes)
            if taken is not None:
                return Merge(taken[0].partition, tuple(taken))
        limit *= 2
    return None


def _up_to(files: Sequence[DataFile], most: int) -> Iterator[tuple[int, int]]:
    """[start, end) of each run of two or more files that are at most so large."""
    start = 0
    for index in range(len(files) + 1):
        if index == len(files) or files[index].size > most:
            if index - start > 1:
                yield start, index
            start = index + 1


def _first_due(run: Sequence[DataFile], target_bytes: int) -> list[DataFile] | None:
    """The first files of a run that fill a file; else all of it, if it is grown."""
    taken: list[DataFile] = []
    size = largest = 0
    for file in run:
        if size + file.size > target_bytes:
            return taken
        taken.append(file)
        size, largest = size + file.size, max(largest, file.size)
    # What would soon be a full file waits for that, unless it is very many: it is
    # written once less.
    times = GROWTH if size < target_bytes // FULL else 2 * GROWTH
    return taken if size >= times * largest and len(taken) > 1 else None
