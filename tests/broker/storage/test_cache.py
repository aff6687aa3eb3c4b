"""The hot window: bounded, and never taken from under a reader."""

import os
import sys
from pathlib import Path

import pytest

from broker.storage.cache import WINDOW_SHIFT, WINDOWS_MAX, SegmentCache
from broker.storage.entry import location_of
from broker.storage.files import PosixFiles
from broker.storage.segment import Slot

SIZE = 8192


def a_segment(path: Path, sequence: int) -> tuple[int, Slot]:
    files = PosixFiles()
    file = files.create(path / str(sequence))
    files.allocate(file, SIZE)
    files.pwritev(file, [f"segment {sequence}".encode()], 4096)
    return sequence, Slot(sequence, path, file, SIZE)


def test_the_newest_that_fit_are_seen(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 2 * SIZE)
    for sequence in range(1, 6):
        cache.begin(*a_segment(tmp_path, sequence))
    seen = [n for n in range(1, 6) if cache.view(n, 4096, 9) is not None]
    assert seen == [4, 5]
    assert cache.view(5, 4096, 9) == b"segment 5"


def test_the_active_one_is_seen_however_small_the_window(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 0)
    cache.begin(*a_segment(tmp_path, 1))
    assert cache.view(1, 4096, 9) == b"segment 1"


def test_one_that_left_is_held_while_a_view_is_alive(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), SIZE)
    cache.begin(*a_segment(tmp_path, 1))
    view = cache.view(1, 4096, 9)
    assert view is not None
    cache.drop(1)
    cache.sweep()
    assert cache.view(1, 4096, 9) is None
    assert cache.holds(1)
    assert view == b"segment 1"
    view.release()
    cache.sweep()
    assert not cache.holds(1)
    assert not cache.leaving


def test_older_ones_are_seen_while_the_kernel_has_their_pages(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), SIZE, 3 * SIZE)
    segments = [a_segment(tmp_path, sequence) for sequence in range(1, 5)]
    for segment in segments:
        cache.begin(*segment)
    for sequence in (2, 3):
        assert cache.view(sequence, 4096, 9) is None  # not without asking
        whole = cache.run(sequence, 4096, 4105)
        assert whole is not None
        assert whole[4096:4105] == f"segment {sequence}".encode()
    assert cache.run(1, 4096, 4105) is None
    cache.sweep()
    assert not cache.holds(1)
    whole = None
    cache.rest()
    file = segments[1][1].file
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    assert cache.run(2, 4096, 4105) is None
    os.pread(file, SIZE, 0)
    assert cache.run(2, 4096, 4105) is not None


def test_a_warm_one_is_held_while_somebody_sends_from_it(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 0, 4 * SIZE)
    for sequence in range(1, 3):
        cache.begin(*a_segment(tmp_path, sequence))
    whole = cache.run(1, 4096, 4105)
    assert whole is not None
    sent = whole[4096:4105]
    whole = None
    cache.drop(1)
    cache.sweep()
    assert cache.holds(1)
    assert sent == b"segment 1"
    sent.release()
    cache.sweep()
    assert not cache.holds(1)


def file_pages_bytes(path: Path) -> int:
    """Resident bytes of the mappings of a file, as the kernel tells them."""
    found, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            here = words[-1] == str(path)
        elif here and words[0] == "Rss:":
            found += int(words[1]) << 10
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_pages_of_segments_that_were_sent_go_back(tmp_path: Path) -> None:
    """However much is read: what counts as ours stays about the bound."""
    files, size = PosixFiles(), 16 << 20
    bound = WINDOWS_MAX << WINDOW_SHIFT
    cache = SegmentCache(files, 2 * size, 8 * size)
    for sequence in range(1, 9):
        file = files.create(tmp_path / str(sequence))
        files.pwritev(file, [bytes(size)], 0)
        cache.begin(sequence, Slot(sequence, tmp_path, file, size))
    most, length = 0, 1 << 20
    for sequence in range(1, 9):
        for position in range(0, size, length):
            whole = cache.run(sequence, position, position + length)
            assert whole is not None
            cache.touch([(location_of(sequence, position), length)])
            assert not any(whole[position : position + length : 4096])
        resident = sum(file_pages_bytes(tmp_path / str(n)) for n in range(1, 9))
        most = max(most, resident)
    assert size <= most <= bound + size, most
    cache.rest()
    assert sum(file_pages_bytes(tmp_path / str(n)) for n in range(1, 9)) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_pages_of_small_batches_that_were_sent_go_back(tmp_path: Path) -> None:
    """One in each window: no batch reaches into another."""
    files, size = PosixFiles(), (WINDOWS_MAX + 1) << WINDOW_SHIFT
    cache, path = SegmentCache(files, 2 * size), tmp_path / "1"
    file = files.create(path)
    files.allocate(file, size)
    cache.begin(1, Slot(1, tmp_path, file, size))
    whole = cache.run(1, 0, size)
    assert whole is not None
    assert not any(whole[:: 1 << WINDOW_SHIFT])
    for position in range(0, size, 1 << WINDOW_SHIFT):
        cache.touch([(location_of(1, position), 100)])
    assert file_pages_bytes(path) > 0
    cache.touch([(location_of(1, 0), 100)])
    assert file_pages_bytes(path) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_segment_that_is_not_hot_any_more_gives_its_pages_back(
    tmp_path: Path,
) -> None:
    files, size = PosixFiles(), 1 << 20
    cache = SegmentCache(files, size, 8 * size)
    for sequence in (1, 2):
        file = files.create(tmp_path / str(sequence))
        files.pwritev(file, [bytes(size)], 0)
        cache.begin(sequence, Slot(sequence, tmp_path, file, size))
        if sequence == 1:
            view = cache.view(1, 0, size)
            assert view is not None
            assert not any(view[::4096])
            assert file_pages_bytes(tmp_path / "1") == size
    assert cache.view(1, 0, size) is None
    assert file_pages_bytes(tmp_path / "1") == 0
    view.release()
