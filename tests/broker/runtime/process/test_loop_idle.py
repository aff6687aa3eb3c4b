"""How idle the loop's thread was, by clocks that are moved by hand and by the real."""

import time

from broker.runtime.process.loop_idle import LoopIdle


class Clocks:
    def __init__(self) -> None:
        self.now_ns = 5_000
        self.taken_ns = 700


def test_what_is_taken_between_two_looks_is_not_idle() -> None:
    clocks = Clocks()
    idle = LoopIdle(lambda: clocks.now_ns, lambda: clocks.taken_ns)
    clocks.now_ns += 1_000
    clocks.taken_ns += 250
    assert idle.percent() == 75
    clocks.now_ns += 1_000
    assert idle.percent() == 100
    clocks.now_ns += 1_000
    clocks.taken_ns += 1_000
    assert idle.percent() == 0


def test_clocks_of_different_ticks_give_no_share_that_cannot_be() -> None:
    clocks = Clocks()
    idle = LoopIdle(lambda: clocks.now_ns, lambda: clocks.taken_ns)
    assert idle.percent() == 100
    clocks.now_ns += 10
    clocks.taken_ns += 30
    assert idle.percent() == 0


def test_a_thread_that_sleeps_is_idle_and_one_that_counts_is_less() -> None:
    idle = LoopIdle()
    time.sleep(0.2)
    asleep = idle.percent()
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    assert asleep > 50
    assert idle.percent() < 100
