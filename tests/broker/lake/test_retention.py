"""Where a log begins: by age and by size, over files instead of segments."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from broker.lake.retention import UNLIMITED, InSegment, Kept, new_log_start
from lakehouse.log.actions import UNKNOWN_MAX, UNKNOWN_MIN, DataFile

NOW_MS = 1_000_000
HOUR = 3_600_000


def file(
    first: int, last: int, newest_ms: int = NOW_MS, size: int = 100, oldest_ms: int = 0
) -> DataFile:
    return DataFile(
        f"{first}",
        0,
        size,
        last - first + 1,
        first,
        last,
        oldest_ms,
        newest_ms,
        0,
        False,
    )


def start_of(
    files: Sequence[DataFile],
    *,
    log_start: int = 0,
    table_end: int = 1000,
    ms: int = UNLIMITED,
    size: int = UNLIMITED,
    segments: int = 0,
) -> int:
    kept = Kept(files, log_start, table_end, segments)
    return new_log_start(kept, retention_ms=ms, retention_bytes=size, now_ms=NOW_MS)


OLD = [file(0, 99, NOW_MS - 500), file(100, 199, NOW_MS - 400), file(200, 299, NOW_MS)]


def test_without_limits_nothing_goes() -> None:
    assert start_of(OLD) == 0


def test_files_go_when_all_of_them_is_too_old() -> None:
    assert start_of(OLD, ms=450) == 100
    assert start_of(OLD, ms=100) == 200
    assert start_of(OLD, ms=400) == 100  # exactly as old as allowed stays


def test_a_young_file_keeps_the_older_ones_behind_it() -> None:
    files = [file(0, 9, NOW_MS), file(10, 19, 0)]
    assert start_of(files, ms=100) == 0


def test_when_all_is_too_old_the_log_begins_at_the_tables_end() -> None:
    assert start_of(OLD[:2], ms=100, table_end=250) == 250


def test_files_go_while_enough_remains_without_them() -> None:
    assert start_of(OLD, size=300) == 0
    assert start_of(OLD, size=200) == 100
    assert start_of(OLD, size=101) == 100
    assert start_of(OLD, size=100) == 200
    assert start_of(OLD, size=0) == 1000


def test_what_is_in_segments_counts_as_size() -> None:
    assert start_of(OLD, size=300, segments=100) == 100


def test_files_below_the_log_start_count_no_more() -> None:
    assert start_of(OLD, size=200, log_start=100) == 100


def test_a_gap_goes_with_the_file_before_it() -> None:
    files = [file(0, 9, 0), file(50, 59)]
    assert start_of(files, ms=100) == 50


def test_a_file_without_statistics_stays() -> None:
    unknown = file(UNKNOWN_MIN, UNKNOWN_MAX, UNKNOWN_MAX)
    assert start_of([unknown, *OLD], ms=1, size=0) == 0


def test_the_log_start_never_goes_back() -> None:
    assert start_of([file(0, 99, 0), file(100, 199)], ms=100, log_start=150) == 150


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, NOW_MS), st.integers(1, 500)),
        max_size=8,
    ),
    st.integers(0, 400),
    st.integers(-1, NOW_MS),
    st.integers(-1, 3000),
)
def test_no_record_that_is_to_be_kept_goes(
    shapes: list[tuple[int, int, int]], log_start: int, ms: int, size: int
) -> None:
    files, first = [], 0
    for count, newest_ms, file_size in shapes:
        files.append(file(first, first + count - 1, newest_ms, file_size))
        first += count
    log_start = min(log_start, first)
    start = start_of(files, log_start=log_start, table_end=first, ms=ms, size=size)
    assert log_start <= start <= first
    gone = [f for f in files if log_start <= f.last_offset < start]
    kept_bytes = sum(f.size for f in files if f.last_offset >= start)
    for position, one in enumerate(gone):
        expired = ms != UNLIMITED and one.timestamp_max_ms < NOW_MS - ms
        rest = kept_bytes + sum(f.size for f in gone[position + 1 :])
        assert expired or (size != UNLIMITED and rest >= size)


def test_a_file_without_timestamps_is_as_old_as_its_last_write() -> None:
    unstamped = file(0, 9, newest_ms=-1)._replace(modified_ms=NOW_MS - 50)
    assert start_of([unstamped, OLD[2]], ms=100) == 0
    assert start_of([unstamped, OLD[2]], ms=40) == 200


def test_segments_that_nobody_compacts_follow_when_no_file_is_left() -> None:
    parts = [
        InSegment(300, 100, NOW_MS - 500, NOW_MS),
        InSegment(310, 100, -1, NOW_MS - 400),
        InSegment(320, 100, NOW_MS - 600, NOW_MS),
        InSegment(330, 100, NOW_MS, NOW_MS),
    ]

    def start(files: Sequence[DataFile], ms: int = -1, size: int = -1) -> int:
        kept = Kept(files, 0, 290, 400, parts)
        return new_log_start(kept, retention_ms=ms, retention_bytes=size, now_ms=NOW_MS)

    assert start([]) == 0
    assert start([], ms=450) == 300
    assert start([], ms=100) == 320
    assert start([file(0, 289, NOW_MS)], ms=100) == 0
    assert start([file(0, 289, 0)], ms=100) == 320
    assert start([file(0, 289, NOW_MS)], size=400) == 290
    assert start([file(0, 289, NOW_MS)], size=200) == 310
    assert start([], size=0) == 330
