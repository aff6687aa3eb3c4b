"""Who was kept waiting for the processor waits longer, while others work."""

from broker.lake.cpu_throttle import REST_MAX_S, TIMES, CpuThrottle


class Machine:
    """A clock, a processor's clock, and the rests that were taken."""

    def __init__(self, *, others_work: bool = True) -> None:
        self.now_s = 100.0
        self.used_s = 0.0
        self.rests: list[float] = []
        self.throttle = CpuThrottle(
            lambda: others_work, lambda: self.now_s, lambda: self.used_s, self.rest
        )

    def rest(self, seconds: float) -> None:
        self.rests.append(round(seconds, 6))
        self.now_s += seconds

    def work(self, processor_s: float, waited_s: float = 0.0) -> None:
        with self.throttle.slot():
            self.now_s += processor_s + waited_s
            self.used_s += processor_s


def test_on_idle_cores_nothing_is_held_back() -> None:
    machine = Machine()
    for _ in range(3):
        machine.work(0.005)
    assert machine.rests == []


def test_who_waited_for_the_processor_rests_before_the_next_piece() -> None:
    machine = Machine()
    machine.work(0.005, waited_s=0.004)
    assert machine.rests == []
    machine.work(0.005)
    machine.work(0.005)
    assert machine.rests == [0.009]  # as long as the piece took, and no longer
    machine.work(0.02, waited_s=0.001)
    machine.work(0.005)
    assert machine.rests[1:] == [round(TIMES * 0.001, 6)]


def test_a_reader_keeps_half_of_its_speed() -> None:
    machine = Machine()
    began_s = machine.now_s
    for _ in range(50):
        machine.work(0.005, waited_s=0.01)
    assert machine.now_s - began_s <= 2 * 50 * 0.015


def test_time_that_went_by_since_counts() -> None:
    machine = Machine()
    machine.work(0.005, waited_s=0.004)
    machine.now_s += 1
    machine.work(0.005)
    assert machine.rests == []


def test_nobody_rests_for_long() -> None:
    machine = Machine()
    machine.work(0.005, waited_s=3)
    machine.work(0.005)
    assert machine.rests == [REST_MAX_S]


def test_while_nobody_else_works_there_is_no_need() -> None:
    machine = Machine(others_work=False)
    machine.work(0.005, waited_s=0.004)
    machine.work(0.005)
    assert machine.rests == []
