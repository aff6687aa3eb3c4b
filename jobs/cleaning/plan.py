"""Which files of a partition are cleaned, and when: key compaction's decision. Pure.

The problem: of each key the last record is to stay, and all of the log is to be written
anew for that, so it must be worth it. The idea is that of Kafka's log cleaner. What was
cleaned before is the *head* of the log, what came since the *dirty* rest. When the rest
is more than a share of both (``min.cleanable.dirty.ratio``), or has something that may
wait no longer (``max.compaction.lag.ms``), its keys are read, and of head and rest all
rows go that have a later one of their key. What is younger than
``min.compaction.lag.ms`` is not touched, nor anything behind it. Where Kafka keeps the
end of the head in a file, the names of cleaned files say it (`names.Mark`).

A tombstone stays for ``delete.retention.ms`` after the time of the clean that met it
first. Kafka writes that time into each batch; here each file has one, so files of the
rest are not joined with those of the head, nor those of two times. Times are rounded up
to an eighth of that period: so a partition has about ten files beside large ones,
however often it is cleaned, and no tombstone goes sooner than Kafka would let it.

Source: Kafka's ``LogCleanerManager.grabFilthiestCompactedLog``, ``cleanableOffsets``,
``Cleaner.groupSegmentsBySize``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from jobs.merging.names import Mark, mark_of
from lakehouse.index import Cluster, PartitionFiles
from lakehouse.log.actions import DataFile

SINCE_PARTS: Final = 8


class Rules(NamedTuple):
    """What is asked of a partition, as its topic is configured now.

    ``end``: where its table ends; a file that reaches there has its owner's rows.
    ``barred``: not to be touched, so nothing behind it is. ``span_ms_max``: so much
    time a file may span, for retention to let it go; 0: any.
    """

    now_ms: int
    end: int
    dirty_ratio_min: float
    lag_ms_min: int
    lag_ms_max: int
    delete_retention_ms: int
    target_bytes: int
    barred: Callable[[DataFile], bool] = lambda file: False
    span_ms_max: int = 0


class Group(NamedTuple):
    """Adjacent files that become one, if any of their rows stay.

    ``since_ms``: what it is to say of its tombstones, if some stay; ``is_expired``: the
    tombstones of its files have been there long enough.
    """

    files: tuple[DataFile, ...]
    is_dirty: bool
    since_ms: int
    is_expired: bool


class Clean(NamedTuple):
    """All that a partition has below ``end``, in order of offset."""

    partition: int
    end: int
    groups: tuple[Group, ...]
    ratio: float

    @property
    def files(self) -> list[DataFile]:
        return [file for group in self.groups for file in group.files]

    @property
    def first_offset(self) -> int:
        return min(file.first_offset for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def find(files: PartitionFiles, rules: Rules) -> Clean | None:
    """What is to be cleaned of a partition now; None: it is not worth it yet."""
    clusters = list(files.clusters(0))
    head = head_of(clusters)
    clusters = clusters[: _reach(clusters, head, rules)]
    rest = clusters[head:]
    if not rest:
        return None
    ratio = _size(rest) / max(1, _size(clusters))
    if not (ratio > rules.dirty_ratio_min or _is_overdue(rest, rules)):
        return None
    groups = (*_groups(clusters[:head], rules), *_groups(rest, rules, is_dirty=True))
    end = _last_offset(clusters[-1]) + 1
    return Clean(clusters[0][0].partition, end, groups, ratio)


def in_the_way(files: PartitionFiles, rules: Rules) -> DataFile | None:
    """The file that keeps what is behind it from being cleaned; None: there is none."""
    for cluster in list(files.clusters(0))[:-1]:
        for file in cluster:
            if _is_barred(file, rules):
                return file
    return None


def head_of(clusters: Sequence[Cluster]) -> int:
    """How many of these were cleaned, each seeing all of the others."""
    marks: list[Mark] = []
    for cluster in clusters:
        found = [mark_of(file.relative_path) for file in cluster]
        known = [mark for mark in found if mark is not None]
        if len(known) < len(found):
            break
        marks.append(Mark(min(mark.end for mark in known), 0))
    end = min((mark.end for mark in marks), default=0)
    seen = (_last_offset(cluster) < end for cluster in clusters[: len(marks)])
    return next((at for at, is_seen in enumerate(seen) if not is_seen), len(marks))


def _reach(clusters: Sequence[Cluster], head: int, rules: Rules) -> int:
    """How many of these may be cleaned."""
    young_ms = rules.now_ms - rules.lag_ms_min
    for at, cluster in enumerate(clusters):
        if any(_is_barred(file, rules) for file in cluster):
            return at
        newest_ms = max(file.timestamp_max_ms for file in cluster)
        if at >= head and rules.lag_ms_min > 0 and newest_ms > young_ms:
            return at
    return len(clusters)


def _is_barred(file: DataFile, rules: Rules) -> bool:
    is_known = file.is_bounded and file.rows > 0 and file.vector is None
    return not is_known or file.last_offset >= rules.end or rules.barred(file)


def _is_overdue(rest: Sequence[Cluster], rules: Rules) -> bool:
    """Records without a time (-1) are due when others are, as in Kafka."""
    oldest_ms = min(
        (f.timestamp_min_ms for c in rest for f in c if f.timestamp_min_ms > 0),
        default=rules.now_ms,
    )
    return rules.now_ms - oldest_ms > rules.lag_ms_max


def _groups(
    clusters: Sequence[Cluster], rules: Rules, *, is_dirty: bool = False
) -> Iterator[Group]:
    """Files that may become one, up to the wanted size."""
    taken: list[DataFile] = []
    before: tuple[int, bool] | None = None
    for cluster in clusters:
        kind = (since(rules), False) if is_dirty else _tombstones(cluster, rules)
        joined = [*taken, *cluster]
        if taken and (kind != before or _is_too_large(joined, rules)):
            assert before is not None
            yield Group(tuple(taken), is_dirty, *before)
            joined = list(cluster)
        taken, before = joined, kind
    if before is not None:
        yield Group(tuple(taken), is_dirty, *before)


def since(rules: Rules) -> int:
    """What files say of tombstones that are met now for the first time."""
    step_ms = max(1, rules.delete_retention_ms // SINCE_PARTS)
    return -(-rules.now_ms // step_ms) * step_ms


def _tombstones(cluster: Cluster, rules: Rules) -> tuple[int, bool]:
    """Since when those of a cleaned file are there, and whether that is long enough:
    then none is left."""
    marks = [mark_of(file.relative_path) for file in cluster]
    since_ms = max(mark.since_ms for mark in marks if mark is not None)
    is_expired = since_ms + rules.delete_retention_ms <= rules.now_ms
    return (0, True) if is_expired else (since_ms, False)


def _is_too_large(files: Sequence[DataFile], rules: Rules) -> bool:
    if sum(file.size for file in files) > rules.target_bytes:
        return True
    low = min(file.timestamp_min_ms for file in files)
    high = max(file.timestamp_max_ms for file in files)
    return 0 < rules.span_ms_max < high - low


def _size(clusters: Sequence[Cluster]) -> int:
    return sum(file.size for cluster in clusters for file in cluster)


def _last_offset(cluster: Cluster) -> int:
    return max(file.last_offset for file in cluster)
