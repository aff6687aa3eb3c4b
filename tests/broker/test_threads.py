"""The operating system's threads, as the seam gives them."""

from queue import Empty

import pytest

from broker.threads import SYSTEM_THREADS


def test_a_thread_runs_its_function_and_is_joined():
    queue = SYSTEM_THREADS.queue()
    thread = SYSTEM_THREADS.thread("one", lambda: queue.put("ran"))
    assert queue.empty()
    thread.start()
    thread.join()
    assert queue.get_nowait() == "ran"
    with pytest.raises(Empty):
        queue.get(timeout=0)


def test_a_condition_wakes_who_waits():
    changed, told = SYSTEM_THREADS.condition(), []

    def wait() -> None:
        with changed:
            while not told:
                changed.wait()
            told.append("woken")

    thread = SYSTEM_THREADS.thread("waiting", wait)
    thread.start()
    with changed:
        told.append("now")
        changed.notify_all()
    thread.join()
    assert told == ["now", "woken"]
