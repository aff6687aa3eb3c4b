"""Which files of a partition become one, and when: levels of sizes. Pure.

The problem: freshness makes a file per partition every few seconds. Few and large ones
are wanted, but whoever joins a new file to the large one before it writes all of it
again each time. The idea: adjacent files become one when together they are `GROWTH`
times as large as the largest of them, or when they fill a file of the wanted size; so
each time a byte is written again it is in a file that is `GROWTH` times as large as the
last one, until it is in a full one, which stays. That holds whatever sizes come.

Retention lets a file go when its last record is old enough, so none spans more than a
share of the time for which records are kept. A table may keep them longer than the log
(`lake.retention.ms`): below the log's start the table's time counts, and files that
were small for the log's sake become large ones.

Files whose offsets overlap, or that are in no order inside, are their owner's work
(OPTIMIZE, MERGE, ZORDER). They are slow to read, and become one at once.

The price, simulated for days of files as often as `jobs.flush` makes them
(`test_plan`): a byte is written three to four times all in all, and a partition has
some forty files beside full ones (with a growth of 4 it would be once more and fifteen
files, with 32 once less and sixty).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from lakehouse.index import PartitionFiles
from lakehouse.log.actions import DataFile

GROWTH: Final = 16
FULL: Final = 2
"""A file of more than the wanted size divided by this is full."""
REPAIR_BYTES_MAX: Final = 64 << 30
"""So much is sorted in one go, into files of the wanted size; of more the owner is
told."""


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

    ``end``: where its table ends; a file that reaches there has its owner's rows, as
    one has that begins below 0.
    ``is_unsorted``: of a file that nothing overlaps. ``barred``: left alone.
    """

    target_bytes: int
    end: int
    is_unsorted: Callable[[DataFile], bool]
    barred: Callable[[DataFile], bool]
    span_ms_max: int = 0
    """So much time a file may span, for retention to let it go; 0: any."""
    too_large: Callable[[int, int], None] = lambda partition, size: None
    """Hears of so many bytes in no order that nothing is done about."""
    kind: Callable[[DataFile], int | None] = lambda file: None
    """Files of two kinds do not become one, unless they overlap."""


class Below(NamedTuple):
    """What is asked of the files that lie wholly below the log's start, in place of the
    same fields of the rules. Where these differ, no file is made of both kinds."""

    log_start: int
    target_bytes: int
    span_ms_max: int

    def rules_for(self, cluster: Sequence[DataFile], rules: Rules) -> Rules:
        if max(file.last_offset for file in cluster) >= self.log_start:
            return rules
        return rules._replace(
            target_bytes=self.target_bytes, span_ms_max=self.span_ms_max
        )


NOTHING_BELOW: Final = Below(0, 0, 0)


def find(
    files: PartitionFiles, of_log: Rules, below: Below = NOTHING_BELOW
) -> Merge | None:
    """What is to become one next of a partition; None: all is well, or barred."""
    run: list[DataFile] = []
    found: Merge | None = None
    rules = before = of_log
    for cluster in files.clusters(0):
        before, rules = rules, below.rules_for(cluster, of_log)
        is_other = bool(run) and rules.kind(run[-1]) != rules.kind(cluster[0])
        if rules != before or is_other:
            found = found or _in_run(run, before)
            run = []
        size = sum(file.size for file in cluster)
        if any(_is_barred(file, rules) for file in cluster):
            found = found or _in_run(run, rules)
            run = []
        elif len(cluster) > 1 or rules.is_unsorted(cluster[0]):
            if size <= REPAIR_BYTES_MAX:
                return Merge(cluster[0].partition, cluster, is_repair=True)
            rules.too_large(cluster[0].partition, size)
            found = found or _in_run(run, rules)
            run = []
        else:
            run.append(cluster[0])
    return found or _in_run(run, rules)


def _is_barred(file: DataFile, rules: Rules) -> bool:
    is_known = file.is_bounded and file.rows > 0 and file.vector is None
    is_inside = file.first_offset >= 0 and file.last_offset < rules.end
    return not (is_known and is_inside) or rules.barred(file)


def _in_run(files: Sequence[DataFile], rules: Rules) -> Merge | None:
    """The first of adjacent sorted files that should be one, the smallest ones first.

    Sizes are looked at by limits that double: those of files up to a limit make runs.
    """
    limit = max(1, min((file.size for file in files), default=0))
    while files and limit <= 2 * rules.target_bytes:
        most = min(limit, rules.target_bytes // FULL)
        for start, end in _up_to(files, most, rules):
            taken = _first_due(files[start:end], rules)
            if taken is not None:
                return Merge(taken[0].partition, tuple(taken))
        limit *= 2
    return None


def _up_to(
    files: Sequence[DataFile], most: int, rules: Rules
) -> Iterator[tuple[int, int]]:
    """[start, end) of each run of two or more files that are at most so large, and not
    full of time."""
    start = 0
    for index in range(len(files) + 1):
        if index < len(files):
            file = files[index]
            is_full = FULL * _span_ms([file], rules) > rules.span_ms_max
            if file.size <= most and not is_full:
                continue
        if index - start > 1:
            yield start, index
        start = index + 1


def _first_due(run: Sequence[DataFile], rules: Rules) -> list[DataFile] | None:
    """The first files of a run that fill a file; else all of it, if it is grown."""
    taken: list[DataFile] = []
    size = 0
    for file in run:
        joined = [*taken[:1], *taken[-1:], file]
        is_late = _span_ms(joined, rules) > rules.span_ms_max
        if size + file.size > rules.target_bytes or is_late:
            if len(taken) > 1:
                return taken
            taken, size = [], 0
        taken.append(file)
        size += file.size
    # What would soon be a full file waits for that, unless it is very many: it is
    # written once less.
    times = GROWTH if size < rules.target_bytes // FULL else 2 * GROWTH
    largest = max(file.size for file in taken)
    return taken if size >= times * largest and len(taken) > 1 else None


def _span_ms(files: Sequence[DataFile], rules: Rules) -> int:
    """How much time files span; 0 where it does not matter, or one of them spans more
    than a merge would let it: then its producers write whatever times they like."""
    low = min(file.timestamp_min_ms for file in files)
    high = max(file.timestamp_max_ms for file in files)
    spans = [file.timestamp_max_ms - file.timestamp_min_ms for file in files]
    if not rules.span_ms_max or max(spans) > rules.span_ms_max:
        return 0
    return high - low
