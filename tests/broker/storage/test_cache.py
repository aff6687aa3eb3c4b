"""The hot window: bounded, and never taken from under a reader."""

import os
from pathlib import Path

from broker.storage.cache import SegmentCache
from broker.storage.files import PosixFiles
from broker.storage.segment import Segment, Slot

SIZE = 8192


def a_segment(path: Path, sequence: int) -> Segment:
    files = PosixFiles()
    file = files.create(path / str(sequence))
    files.allocate(file, SIZE)
    files.pwritev(file, [f"segment {sequence}".encode()], 4096)
    return Segment(sequence, Slot(sequence, path, file, SIZE), 0)


def test_the_newest_that_fit_are_seen(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 2 * SIZE)
    for sequence in range(1, 6):
        cache.begin(a_segment(tmp_path, sequence))
    seen = [n for n in range(1, 6) if cache.view(n, 4096, 9) is not None]
    assert seen == [4, 5]
    assert cache.view(5, 4096, 9) == b"segment 5"


def test_the_active_one_is_seen_however_small_the_window(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 0)
    cache.begin(a_segment(tmp_path, 1))
    assert cache.view(1, 4096, 9) == b"segment 1"


def test_one_that_left_is_held_while_a_view_is_alive(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), SIZE)
    cache.begin(a_segment(tmp_path, 1))
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
        cache.begin(segment)
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
    file = segments[1].slot.file
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    assert cache.run(2, 4096, 4105) is None
    os.pread(file, SIZE, 0)
    assert cache.run(2, 4096, 4105) is not None


def test_a_warm_one_is_held_while_somebody_sends_from_it(tmp_path: Path) -> None:
    cache = SegmentCache(PosixFiles(), 0, 4 * SIZE)
    for sequence in range(1, 3):
        cache.begin(a_segment(tmp_path, sequence))
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
