"""Which files become one, and what a day of them comes to."""

import random
from collections.abc import Callable, Sequence

import pytest

from jobs.merging import plan
from jobs.merging.plan import Below, Merge, Rules, find
from lakehouse.index import PartitionFiles
from lakehouse.log.actions import DataFile, Vector
from tests.support.data_files import data_file

MIB = 1 << 20
TARGET = 128 * MIB
DAY_S = 24 * 3600
FILE_BYTES = 256 << 10
"""Of a megabyte of JSON a quarter stays as file."""


def rules(
    end: int = 1 << 60,
    is_unsorted: Callable[[DataFile], bool] = lambda file: False,
    barred: Callable[[DataFile], bool] = lambda file: False,
) -> Rules:
    return Rules(TARGET, end, is_unsorted, barred)


def row(sizes: Sequence[int]) -> list[DataFile]:
    """Files one behind the other."""
    return [data_file(i * 10, i * 10 + 10, size=size) for i, size in enumerate(sizes)]


def found(files: Sequence[DataFile], **more: object) -> Merge | None:
    return find(PartitionFiles(files), rules(**more))  # type: ignore[arg-type]


def spans(merge: Merge | None) -> tuple[int, int]:
    assert merge is not None
    return merge.files[0].first_offset // 10, merge.files[-1].last_offset // 10 + 1


class Table:
    """The files of a partition, merged whenever something is found."""

    def __init__(self) -> None:
        self.files = PartitionFiles()
        self.end = self.added = self.rewritten = self.most = self.merges = 0

    def add(self, size: int) -> None:
        file = data_file(self.end, self.end + 10, size=size)
        self.files = self.files.changed((), [file])
        self.end += 10
        self.added += size

    def merge(self) -> bool:
        merge = find(self.files, rules())
        if merge is None:
            return False
        low, high = merge.files[0].first_offset, merge.files[-1].last_offset
        kept = [file for file in self.files.files if file not in merge.files]
        self.files = PartitionFiles([*kept, data_file(low, high + 1, size=merge.bytes)])
        self.rewritten += merge.bytes
        self.merges += 1
        return True

    def settle(self) -> None:
        while self.merge():
            pass
        self.most = max(self.most, len(self.files.files))

    @property
    def amplification(self) -> float:
        return (self.added + self.rewritten) / self.added


@pytest.mark.parametrize("spread", [0.0, 0.9], ids=["even", "uneven"])
@pytest.mark.parametrize(
    ("bytes_per_s", "every_s"), [(200_000, 3.6), (20_000, 11.4), (1_000, 51.2)]
)
def test_a_day_of_small_files_comes_to_few(
    bytes_per_s: int, every_s: float, spread: float
) -> None:
    """Of a partition with so much JSON, files as often as `jobs.flush` has them made:
    the first is one of 20 MB/s over ten topics of ten partitions."""
    chance, table = random.Random(7), Table()
    file_bytes = int(bytes_per_s * every_s / 4)
    for number in range(int(DAY_S / every_s)):
        table.add(int(file_bytes * chance.uniform(1 - spread, 1 + spread)))
        if number % 8 == 7:
            table.settle()
    assert table.most <= 100
    assert table.amplification <= 4
    assert sum(file.size for file in table.files.files) == table.added


def test_after_a_pause_of_the_merge_a_days_files_become_few() -> None:
    chance, table = random.Random(8), Table()
    for _ in range(4_000):
        table.add(int(FILE_BYTES * chance.uniform(0.5, 1.5)))
    table.settle()
    assert table.most <= 50
    assert table.amplification <= 3


def test_files_wait_until_they_are_grown() -> None:
    assert found(row([MIB] * (plan.GROWTH - 1))) is None
    assert spans(found(row([MIB] * plan.GROWTH))) == (0, plan.GROWTH)


def test_a_large_file_is_not_written_again_for_small_ones_behind_it() -> None:
    files = row([60 * MIB] + [MIB] * plan.GROWTH)
    assert spans(found(files)) == (1, plan.GROWTH + 1)


def test_what_fills_a_file_becomes_one_and_stays() -> None:
    assert spans(found(row([60 * MIB, 60 * MIB, 60 * MIB]))) == (0, 2)
    assert found(row([TARGET, 65 * MIB, TARGET, 65 * MIB])) is None


def test_what_will_soon_fill_a_file_waits_for_that() -> None:
    sizes = [4 * MIB] * (plan.GROWTH + 1)
    assert found(row(sizes)) is None
    assert spans(found(row(sizes * 2))) == (0, 32)


def test_files_that_overlap_become_one_at_once() -> None:
    files = [data_file(0, 10), data_file(10, 30), data_file(20, 40), data_file(40, 50)]
    merge = found(files)
    assert merge == Merge(0, (files[1], files[2]), is_repair=True)


def test_a_file_in_no_order_is_repaired_alone() -> None:
    files = row([MIB, TARGET, MIB])
    assert found(files, is_unsorted=lambda file: file is files[1]) == Merge(
        0, (files[1],), is_repair=True
    )


def test_too_much_in_no_order_is_left_alone_and_the_rest_is_not() -> None:
    large = data_file(10, 20, size=plan.REPAIR_BYTES_MAX + 1)
    behind = [data_file(i, i + 10, size=MIB) for i in range(20, 180, 10)]
    files = [data_file(0, 10, size=MIB), large, *behind]
    merge = found(files, is_unsorted=lambda file: file is large)
    assert merge == Merge(0, tuple(behind))


@pytest.mark.parametrize(
    "odd",
    [
        data_file(80, 90, rows=-1),
        data_file(80, 90, rows=0),
        data_file(80, 90)._replace(vector=Vector("i", "", None, 1, 1)),
    ],
    ids=["no count", "no rows", "vector"],
)
def test_what_is_not_known_is_left_alone(odd: DataFile) -> None:
    files = row([MIB] * (plan.GROWTH + 10))
    files[8] = odd
    assert found(files[: plan.GROWTH + 8]) is None
    assert spans(found(files)) == (9, plan.GROWTH + 10)


def test_one_without_statistics_reaches_from_end_to_end_and_bars_all() -> None:
    wide = data_file(0, 10)._replace(first_offset=-(1 << 63), last_offset=(1 << 63) - 1)
    assert found([wide, *row([MIB] * 32)]) is None


def test_an_owners_rows_at_the_tables_end_are_left_where_they_are() -> None:
    files = row([MIB] * plan.GROWTH)
    assert found(files, end=len(files) * 10 - 1) is None
    assert found(files, end=len(files) * 10) is not None


def test_an_owners_rows_below_0_are_left_where_they_are() -> None:
    theirs = data_file(0, 30)._replace(first_offset=-5, path="theirs")
    for files in ([theirs], [theirs, *row([MIB] * 3)]):
        assert found(files, is_unsorted=lambda file: True) is None
    merge = found([theirs, *row([MIB] * 30)])
    assert merge is not None
    assert merge.files[0].first_offset == 30


def test_what_is_barred_makes_two_runs() -> None:
    files = row([MIB] * 40)
    merge = found(files, barred=lambda file: file is files[10])
    assert spans(merge) == (11, 40)


DAY_MS = 86_400_000


def aged(*times: tuple[int, int]) -> list[DataFile]:
    """Files of a MiB whose records are of these times."""
    return [
        file._replace(timestamp_min_ms=low, timestamp_max_ms=high)
        for file, (low, high) in zip(row([MIB] * len(times)), times, strict=True)
    ]


def test_a_file_spans_a_share_of_the_time_that_records_are_kept() -> None:
    files = aged(*((n * DAY_MS, (n + 1) * DAY_MS) for n in range(60)))
    kept = rules()._replace(span_ms_max=10 * DAY_MS)
    merge = find(PartitionFiles(files), kept)
    assert spans(merge) == (0, 10)
    [one] = aged((0, 10 * DAY_MS))
    rest = [one._replace(last_offset=99), *files[10:]]
    assert spans(find(PartitionFiles(rest), kept)) == (10, 20)
    assert spans(find(PartitionFiles(files), rules())) == (0, 60)


def test_below_the_log_start_the_tables_own_time_counts() -> None:
    """Files of an hour each for the log's sake; the table keeps them for ever."""
    kept = rules()._replace(span_ms_max=2)
    files = aged(*((n, n + 1) for n in range(60)))
    assert spans(find(PartitionFiles(files), kept)) == (0, 2)
    full_of_time = aged(*((2 * n, 2 * n + 2) for n in range(60)))
    assert find(PartitionFiles(full_of_time), kept) is None
    for start, end in ((0, None), (200, 20), (205, 20), (600, 60)):
        merge = find(PartitionFiles(full_of_time), kept, Below(start, TARGET, 0))
        assert merge is None if end is None else spans(merge) == (0, end)
    short = Below(600, TARGET, 40)
    assert spans(find(PartitionFiles(full_of_time), kept, short)) == (0, 20)


def test_no_file_is_made_of_what_the_log_has_and_what_it_has_not() -> None:
    files, kept = row([MIB] * 40), rules()._replace(span_ms_max=1)
    assert spans(find(PartitionFiles(files), kept, Below(200, TARGET, 1))) == (0, 40)
    for start in range(0, 401, 10):
        merge = find(PartitionFiles(files), kept, Below(start, TARGET, 0))
        low, high = spans(merge)
        assert high * 10 <= start or low * 10 >= start


def test_what_overlaps_the_log_start_is_held_to_the_logs_time() -> None:
    kept = rules()._replace(span_ms_max=2)
    files = aged(*((2 * n, 2 * n + 2) for n in range(17)))
    rest = Below(165, TARGET, 0)
    assert spans(find(PartitionFiles(files), kept, rest)) == (0, 16)
    assert find(PartitionFiles(files[15:]), kept, rest) is None


def test_files_with_a_long_time_between_stay_apart() -> None:
    kept = rules()._replace(span_ms_max=DAY_MS)
    files = aged(*((n * 2 * DAY_MS, n * 2 * DAY_MS + 1) for n in range(60)))
    assert find(PartitionFiles(files), kept) is None


def test_producers_who_write_whatever_times_have_their_files_merged() -> None:
    kept = rules()._replace(span_ms_max=DAY_MS)
    files = aged(*((0, n * 50 * DAY_MS) for n in range(1, 60)))
    assert spans(find(PartitionFiles(files), kept)) == (0, 59)


def test_too_much_in_no_order_is_told() -> None:
    heard: list[tuple[int, int]] = []
    large = data_file(0, 20, size=plan.REPAIR_BYTES_MAX)
    asked = rules()._replace(too_large=lambda *what: heard.append(what))
    assert find(PartitionFiles([large, data_file(10, 30)]), asked) is None
    assert heard == [(0, plan.REPAIR_BYTES_MAX + MIB)]
