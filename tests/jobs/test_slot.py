"""One who writes files anew has one job, and is told once what came of it."""

from typing import Any

from jobs.merging.rewrite import MergeTask
from jobs.rows import Failed
from jobs.slot import Slot
from tests.jobs.world import World, some
from tests.support.clock import ManualClock

TASK = MergeTask("", "", 0, (), b"", "", 0)
FAILED = Failed("", "nothing came of it", stale=True)


class Worker:
    """Done when it is told so."""

    done: Any = None

    def __init__(self) -> None:
        self.begun: list[Any] = []

    def start(self, task: Any) -> None:
        self.begun.append(task)

    def take(self) -> Any:
        done, self.done = self.done, None
        return done

    def wait(self, timeout_s: float | None = None) -> None:
        """Nothing goes on."""


def a_table(world: World) -> Any:
    steps = world.compactor()
    world.produce(world.topic("t"), some(3))
    world.flush(steps)
    return next(iter(steps._tables.all()))


def test_what_came_of_a_job_is_taken_once_with_what_was_planned(world: World) -> None:
    worker, table = Worker(), a_table(world)
    slot: Slot[str, MergeTask] = Slot(worker, world.clock)
    assert (slot.is_busy, slot.topic, slot.take()) == (False, "", None)
    begun_ms = world.clock.monotonic_ms()
    slot.begin(table, "a plan", TASK)
    world.clock.advance(5)
    assert (slot.is_busy, slot.topic, worker.begun) == (True, "t", [TASK])
    assert slot.take() is None
    assert slot.is_busy
    worker.done = FAILED
    taken = slot.take()
    assert taken is not None
    job, done = taken
    assert done is FAILED
    assert (job.table, job.planned, job.begun_ms) == (table, "a plan", begun_ms)
    assert job.schema == table.snapshot.metadata.schema_string
    assert (slot.is_busy, slot.topic, slot.take()) == (False, "", None)


def test_no_two_attempts_have_a_name_in_common() -> None:
    clock = ManualClock()
    merges: Slot[str, MergeTask] = Slot(Worker(), clock)
    names = [merges.attempt(), merges.attempt(), merges.attempt("c")]
    clock.advance(1)
    names.append(Slot[str, MergeTask](Worker(), clock).attempt())
    assert len(set(names)) == 4
