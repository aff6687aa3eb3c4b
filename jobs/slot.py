"""What is under way of one who writes files of tables anew: a merge, or a clean.

The problem: a merge and a clean are begun by one step of the compactor and end in a
later one; in between others ask of which table it is. The idea: this holds it, with the
table as it was when it was planned. The price: none.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.clock import Clock
from broker.ids import TopicNumber
from jobs.cleaning.rewrite import CleanTask
from jobs.merging.background import Done, Runner
from jobs.merging.rewrite import MergeTask
from jobs.tables import Table

Find = Callable[[TopicNumber], Table | None]
"""A table as it is followed now; None: it is not."""
Planned = TypeVar("Planned")
Task = TypeVar("Task", MergeTask, CleanTask)


@dataclass(slots=True)
class Job(Generic[Planned, Task]):
    """What was planned of a table, and what the worker was given."""

    table: Table
    planned: Planned
    task: Task
    schema: str
    begun_ms: int


@dataclass(slots=True)
class Slot(Generic[Planned, Task]):
    """Has one job at a time."""

    runner: Runner
    clock: Clock
    job: Job[Planned, Task] | None = None
    _attempts: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether something is under way."""
        return self.job is not None

    @property
    def topic(self) -> str:
        """Whose files are written anew; "" if none are."""
        return "" if self.job is None else self.job.table.topic.name

    def attempt(self, kind: str = "") -> str:
        """What no other attempt has in the names of its files, whoever made it."""
        self._attempts += 1
        return f"{os.getpid():x}-{self.clock.now_ms():x}-{kind}{self._attempts:x}"

    def begin(self, table: Table, planned: Planned, task: Task) -> None:
        """Hand a task to the worker; nothing may be under way."""
        metadata = table.snapshot.metadata
        assert metadata is not None, "it was looked at"
        now_ms = self.clock.monotonic_ms()
        self.job = Job(table, planned, task, metadata.schema_string, now_ms)
        self.runner.start(task)

    def take(self) -> tuple[Job[Planned, Task], Done] | None:
        """What was under way and what came of it, once; None: it is not done."""
        job = self.job
        done = None if job is None else self.runner.take()
        if job is None or done is None:
            return None
        self.job = None
        return job, done
