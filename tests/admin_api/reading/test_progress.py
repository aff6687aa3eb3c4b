"""A partition that does not go on although more is there is told after some seconds."""

from admin_api.reading.progress import STALLED_MS, Progress
from tests.support.clock import ManualClock


def test_what_does_not_move_is_told_and_again_after_as_long():
    clock = ManualClock()
    progress = Progress({0: 5, 1: 7}, clock.monotonic_ms)
    assert progress.stalled() == {}
    clock.advance(STALLED_MS)
    assert progress.stalled() == {0: 5, 1: 7}
    assert progress.stalled() == {}
    progress.came_to(0, 6, is_end=False)
    clock.advance(STALLED_MS)
    assert progress.stalled() == {0: 6, 1: 7}


def test_what_was_read_to_its_end_does_not_stall():
    clock = ManualClock()
    progress = Progress({0: 5}, clock.monotonic_ms)
    progress.came_to(0, 5, is_end=True)
    clock.advance(10 * STALLED_MS)
    assert progress.stalled() == {}
    progress.came_to(0, 6, is_end=False)  # and more is there
    clock.advance(STALLED_MS)
    assert progress.stalled() == {0: 6}
