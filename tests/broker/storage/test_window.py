"""The hot window: bounded, and never taken from under a reader."""

from pathlib import Path

from broker.storage.files import PosixFiles
from broker.storage.segment import Segment, Slot
from broker.storage.window import HotWindow

SIZE = 8192


def a_segment(path: Path, sequence: int) -> Segment:
    files = PosixFiles()
    file = files.create(path / str(sequence))
    files.allocate(file, SIZE)
    files.pwritev(file, [f"segment {sequence}".encode()], 4096)
    return Segment(sequence, Slot(sequence, path, file, SIZE), 0)


def test_the_newest_that_fit_are_seen(tmp_path: Path) -> None:
    window = HotWindow(PosixFiles(), 2 * SIZE)
    for sequence in range(1, 6):
        window.begin(a_segment(tmp_path, sequence))
    seen = [n for n in range(1, 6) if window.view(n, 4096, 9) is not None]
    assert seen == [4, 5]
    assert window.view(5, 4096, 9) == b"segment 5"


def test_the_active_one_is_seen_however_small_the_window(tmp_path: Path) -> None:
    window = HotWindow(PosixFiles(), 0)
    window.begin(a_segment(tmp_path, 1))
    assert window.view(1, 4096, 9) == b"segment 1"


def test_one_that_left_is_held_while_a_view_is_alive(tmp_path: Path) -> None:
    window = HotWindow(PosixFiles(), SIZE)
    window.begin(a_segment(tmp_path, 1))
    view = window.view(1, 4096, 9)
    assert view is not None
    window.drop(1)
    window.sweep()
    assert window.view(1, 4096, 9) is None
    assert window.holds(1)
    assert view == b"segment 1"
    view.release()
    window.sweep()
    assert not window.holds(1)
    assert not window.leaving
