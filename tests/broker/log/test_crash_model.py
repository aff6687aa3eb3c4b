"""A log that crashes at any moment, against a list of what the disk holds.

Clients are right: each sends its batches in sequence, at most five unanswered, and
after a refusal or a crash sends the unanswered ones again, in order, when none of them
is on its way any more. Then nothing that was answered may be missing, no batch may be
there twice, what is answered as a duplicate must be there, and nobody is refused.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log import checkpoint
from broker.log.restoring import restore_log
from broker.records.batch import BatchHeader
from tests.broker.log.headers import header

PRODUCERS = (1, 2)
IN_FLIGHT_MAX = 5
KEY = (7, 3)


@dataclass
class Batch:
    """One of a client's batches; ``base`` is where it was placed last."""

    producer: int
    epoch: int
    sequence: int
    count: int
    base: int = -1
    flies: bool = False

    @property
    def header(self) -> BatchHeader:
        return header(
            self.count,
            base=self.base,
            producer=self.producer,
            epoch=self.epoch,
            sequence=self.sequence,
        )


@dataclass
class Client:
    producer: int
    epoch: int = 0
    sequence: int = 0
    unanswered: list[Batch] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        return any(batch.flies for batch in self.unanswered)

    @property
    def must_repeat(self) -> bool:
        return any(not batch.flies for batch in self.unanswered)


@dataclass
class Disk:
    """What a crash leaves: entries in order of writing, and what was written aside."""

    entries: list[tuple[int, Batch]] = field(default_factory=list)
    released: int = 0  # of the entries, from the front
    payload: bytes = b""
    position: int = 0  # entries that the payload knows
    start: int = 0
    table_end: int = 0


class CrashingLog:
    """The log, its disk, its clients, and the two queues between loop and writer."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.clients = {pid: Client(pid) for pid in PRODUCERS}
        self.answered: list[tuple[int, Batch]] = []
        self.seen = 0
        self._restore()

    def _restore(self) -> None:
        disk = self.disk
        snapshots = checkpoint.unpack(disk.payload) if disk.payload else {}
        live = disk.entries[disk.released :]
        columns = SimpleNamespace(
            base=np.array([base for base, _ in live], np.int64),
            last=np.array([base + b.count - 1 for base, b in live], np.int64),
            max_ts=np.zeros(len(live), np.int64),
            location=np.arange(len(live)),
            length=np.ones(len(live), np.int64),
        )
        self.log = restore_log(
            snapshots.get(KEY),
            start=disk.start,
            table_end=disk.table_end,
            columns=columns if live else None,
        )
        for base, batch in disk.entries[disk.position :]:
            self.log.replay(batch.header._replace(base_offset=base), 0)
        self.queue: deque[Batch] = deque()  # to the writer
        self.told: deque[tuple[Batch, bool]] = deque()  # from the writer
        self.broken: set[int] = set()
        self.heard = len(disk.entries)

    def _send(self, batch: Batch) -> None:
        placed = self.log.admit(batch.header, 0)
        if isinstance(placed, int):
            batch.base, batch.flies = placed, True
            self.queue.append(batch)
            return
        assert (placed.base_offset, batch) in self.disk.entries, "a lost duplicate"
        self._answer(placed.base_offset, batch)

    def _answer(self, base: int, batch: Batch) -> None:
        self.answered.append((base, batch))
        if batch.producer >= 0:
            self.clients[batch.producer].unanswered.remove(batch)

    def produce(self, pid: int, count: int) -> None:
        client = self.clients[pid]
        if client.must_repeat or len(client.unanswered) == IN_FLIGHT_MAX:
            return
        batch = Batch(pid, client.epoch, client.sequence, count)
        client.sequence += count
        client.unanswered.append(batch)
        self._send(batch)

    def produce_without_idempotence(self, count: int) -> None:
        self._send(Batch(-1, -1, -1, count))

    def repeat(self, pid: int) -> None:
        client = self.clients[pid]
        if not client.waits:
            for batch in list(client.unanswered):
                self._send(batch)

    def raise_the_epoch(self, pid: int) -> None:
        client = self.clients[pid]
        if not client.unanswered:
            client.epoch, client.sequence = client.epoch + 1, 0

    def write(self, refused: bool) -> None:
        """One batch on the writer's thread; those behind a refused one are too."""
        batch = self.queue.popleft()
        refused = refused or batch.producer in self.broken
        if not refused:
            self.disk.entries.append((batch.base, batch))
        elif batch.producer >= 0:
            self.broken.add(batch.producer)
        self.told.append((batch, not refused))

    def hear(self) -> None:
        """The loop takes what the writer told of one batch."""
        batch, written = self.told.popleft()
        base, last, batch.flies = batch.base, batch.base + batch.count - 1, False
        if written:
            self.heard += 1
            self.log.commit(base, last, 0, location=self.heard, length=1)
            self._answer(base, batch)
            self.seen = self.log.durable
            return
        self.log.abandon(base, last, batch.producer)
        if not any(b.producer == batch.producer for b in self._on_their_way()):
            self.broken.discard(batch.producer)

    def _on_their_way(self) -> list[Batch]:
        return [*self.queue, *(batch for batch, _ in self.told)]

    def checkpoint(self) -> None:
        self.disk.payload = checkpoint.pack([(KEY, self.log)])
        self.disk.position = self.heard

    def delete_records(self, share: float) -> None:
        self.disk.start = max(self.disk.start, round(self.log.durable * share))
        self.log.move_start(self.disk.start)

    def compact_and_release(self, share: float) -> None:
        """Some of what is behind the checkpoint stands in a table alone."""
        upto = round(self.disk.position * share)
        if upto > self.disk.released:
            base, batch = self.disk.entries[upto - 1]
            self.disk.released, self.disk.table_end = upto, base + batch.count

    def crash(self) -> None:
        for client in self.clients.values():
            for batch in client.unanswered:
                batch.flies = False
        self._restore()

    def check(self) -> None:
        self.what_was_answered_is_there_once()
        assert self.log.durable >= self.seen

    def what_was_answered_is_there_once(self) -> None:
        bases = [base for base, _ in self.disk.entries]
        assert bases == sorted(set(bases))
        batches = [id(batch) for _, batch in self.disk.entries]
        assert len(batches) == len(set(batches)), "a batch is there twice"
        there = {(base, id(batch)) for base, batch in self.disk.entries}
        assert all((base, id(batch)) in there for base, batch in self.answered)


def step(story: CrashingLog, chance: random.Random) -> None:
    """Anything that may come next."""
    pid, share = chance.choice(PRODUCERS), chance.random()
    steps: dict[Callable[[], None], int] = {
        lambda: story.produce(pid, chance.randrange(1, 4)): 6,
        lambda: story.produce_without_idempotence(chance.randrange(1, 4)): 2,
        lambda: story.repeat(pid): 3,
        lambda: story.raise_the_epoch(pid): 1,
        lambda: story.checkpoint(): 3,
        lambda: story.delete_records(share): 1,
        lambda: story.compact_and_release(share): 1,
        lambda: story.crash(): 1,
    }
    if story.queue:
        steps[lambda: story.write(refused=chance.random() < 0.3)] = 8
    if story.told:
        steps[story.hear] = 8
    chance.choices([*steps], [*steps.values()])[0]()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_crash_loses_or_doubles_a_batch(seed: int) -> None:
    story, chance = CrashingLog(), random.Random(seed)
    for _ in range(60):
        step(story, chance)
        story.check()
