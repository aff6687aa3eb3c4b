"""A log of transactions that crashes at any moment, against a list of its entries.

Several producers are in transactions at once; batches and markers are on their way to a
writer that refuses some; checkpoints, releases, deletions and crashes come in between.
What a reader of committed records may see is held at each step against what the entries
say that are durable, all of them, from the first on.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log import checkpoint
from broker.log.restoring import restore_log
from broker.log.transactions import AbortedTransaction
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import BatchHeader
from broker.records.markers import Marker
from tests.broker.log.headers import header, marker_header

KEY = (7, 3)
PRODUCERS = range(1, 5)
PLAIN = 9
IN_FLIGHT_MAX = 5


@dataclass(frozen=True)
class Entry:
    """A batch, or a marker, at its place; ``marker`` None: a batch."""

    base: int
    count: int
    header: BatchHeader
    marker: Marker | None = None

    @property
    def producer(self) -> int:
        return self.header.producer_id

    @property
    def is_transactional(self) -> bool:
        return self.header.is_transactional


@dataclass
class Client:
    """A producer with a transactional id: what it sends next."""

    epoch: int = 0
    sequence: int = 0
    is_open: bool = False
    waits: int = 0


@dataclass
class Disk:
    entries: list[Entry] = field(default_factory=list)
    released: int = 0
    payload: bytes = b""
    position: int = 0
    start: int = 0
    table_end: int = 0


class Story:
    """The log, its disk and its writer; ``bumps`` is transactions' version 2."""

    def __init__(self, bumps: bool) -> None:
        self.bumps = bumps
        self.disk = Disk()
        self.clients = {producer: Client() for producer in PRODUCERS}
        self.plain_sequence = 0
        self.known_from = 0  # of the entries
        self.known_start = 0  # where the log started when there was no checkpoint
        self._restore()

    def _restore(self) -> None:
        disk = self.disk
        snapshots = checkpoint.unpack(disk.payload) if disk.payload else {}
        if not disk.payload:
            self.known_start = disk.start
        live = disk.entries[disk.released :]
        columns = SimpleNamespace(
            base=np.array([one.base for one in live], np.int64),
            last=np.array([one.base + one.count - 1 for one in live], np.int64),
            max_ts=np.zeros(len(live), np.int64),
            location=np.arange(1, len(live) + 1) + disk.released,
            length=np.ones(len(live), np.int64),
        )
        self.log = restore_log(
            snapshots.get(KEY),
            start=disk.start,
            table_end=disk.table_end,
            columns=columns if live else None,
        )
        for one in disk.entries[disk.position :]:
            placed = one.header._replace(base_offset=one.base)
            self.log.replay(placed, 0, one.marker)
        self.queue: deque[Entry] = deque()
        self.heard = len(disk.entries)

    # -- what producers and coordinator send ------------------------------------------

    def produce(self, chance: random.Random) -> None:
        producer = chance.choice(PRODUCERS)
        client, count = self.clients[producer], chance.randrange(1, 4)
        is_ending = any(one.producer == producer and one.marker for one in self.queue)
        if client.waits == IN_FLIGHT_MAX or is_ending:  # then the coordinator says no
            return
        one = header(
            count,
            producer=producer,
            epoch=client.epoch,
            sequence=client.sequence,
            transactional=True,
        )
        placed = self.log.admit(one, 0)
        assert isinstance(placed, int), "it never sends anything twice"
        client.sequence += count
        client.is_open = True
        client.waits += 1
        self.queue.append(Entry(placed, count, one))

    def produce_plainly(self, chance: random.Random) -> None:
        one = header(producer=PLAIN, sequence=self.plain_sequence)
        placed = self.log.admit(one, 0)
        assert isinstance(placed, int)
        self.plain_sequence += 1
        self.queue.append(Entry(placed, 1, one))

    def produce_outside(self, chance: random.Random) -> None:
        """A plain batch of a producer that is inside a transaction."""
        producer = chance.choice(PRODUCERS)
        client = self.clients[producer]
        one = header(producer=producer, epoch=client.epoch, sequence=client.sequence)
        if producer in self.log.transactions.admitted:
            with pytest.raises(KafkaError) as caught:
                self.log.admit(one, 0)
            assert caught.value.code is ErrorCode.INVALID_TXN_STATE

    def mark(self, chance: random.Random) -> None:
        """The coordinator ends a transaction, whether or not one is open here."""
        producer = chance.choice(PRODUCERS)
        client = self.clients[producer]
        if client.waits:  # one at a time: it ends what was answered
            return
        epoch = client.epoch + self.bumps
        base = self.log.admit_marker(producer, epoch, bumps=self.bumps)
        marker = Marker(chance.random() < 0.5)
        client.waits += 1
        self.queue.append(Entry(base, 1, marker_header(producer, epoch), marker))

    # -- what the disk does -----------------------------------------------------------

    def write(self, chance: random.Random) -> None:
        """Those of a producer behind a refused one are refused as well."""
        one = self.queue.popleft()
        if chance.random() >= 0.2:
            self._commit(one)
            return
        self._refuse(one)
        waiting, self.queue = self.queue, deque()
        for each in waiting:
            if each.producer == one.producer:
                self._refuse(each)
            else:
                self._commit(each)

    def _refuse(self, one: Entry) -> None:
        self.log.abandon(one.base, one.base + one.count - 1, one.producer)
        if one.producer == PLAIN:
            self.plain_sequence = min(self.plain_sequence, one.header.base_sequence)
            return
        client = self.clients[one.producer]
        client.waits -= 1
        if one.marker is None:
            client.sequence = min(client.sequence, one.header.base_sequence)

    def _commit(self, one: Entry) -> None:
        self.disk.entries.append(one)
        self.heard += 1
        if not one.is_transactional:
            last = one.base + one.count - 1
            self.log.commit(one.base, last, 0, location=self.heard, length=1)
            return
        self.log.commit_transactional(one.base, one.header, self.heard, 1, one.marker)
        self._hear(one)

    def _hear(self, one: Entry) -> None:
        client = self.clients[one.producer]
        client.waits -= 1
        if one.marker is not None:
            client.is_open = False
            if self.bumps:
                client.epoch, client.sequence = one.header.producer_epoch, 0

    def checkpoint(self, chance: random.Random) -> None:
        self.disk.payload = checkpoint.pack([(KEY, self.log)])
        self.disk.position = self.heard

    def checkpoint_late(self, chance: random.Random) -> None:
        """The position is older than what the payload knows."""
        older = chance.randrange(self.disk.position, self.heard + 1)
        self.disk.payload = checkpoint.pack([(KEY, self.log)])
        self.disk.position = older

    def lose_the_checkpoint(self, chance: random.Random) -> None:
        """All that is left is replayed, from the first segment on."""
        self.known_from = self.disk.released
        self.disk.payload, self.disk.position = b"", self.disk.released
        self.crash(chance)

    def delete_records(self, chance: random.Random) -> None:
        durable = self.log.durable
        self.disk.start = max(self.disk.start, round(durable * chance.random() / 2))
        self.log.move_start(self.disk.start)

    def compact_and_release(self, chance: random.Random) -> None:
        """What is stable, and behind the checkpoint, stands in the table alone."""
        disk = self.disk
        upto = chance.randrange(disk.released, disk.position + 1)
        ends = [one.base + one.count for one in disk.entries[:upto]]
        while ends and ends[-1] > self.log.stable:
            ends.pop()
        if len(ends) > disk.released:
            disk.released, disk.table_end = len(ends), ends[-1]
            self.crash(chance)

    def crash(self, chance: random.Random) -> None:
        """What was on its way is lost; producers go on behind what was answered."""
        self._restore_clients()
        self._restore()

    def _restore_clients(self) -> None:
        for one in self.queue:
            if one.producer == PLAIN:
                self.plain_sequence = min(self.plain_sequence, one.header.base_sequence)
                continue
            client = self.clients[one.producer]
            client.waits = 0
            if one.marker is None:
                client.sequence = min(client.sequence, one.header.base_sequence)

    # -- what must be so --------------------------------------------------------------

    def check(self, chance: random.Random) -> None:
        log, all_of_it = self.log, transactions_of(self.disk.entries)
        entries = self.disk.entries[self.known_from :]
        whole = [one for one in entries if one.base + one.count > self.known_start]
        known = transactions_of(whole)
        opened = [first for first, _, _, last in known if last is None]
        assert log.stable == max(min([*opened, log.durable]), log.start)
        first = log.index.first_offset
        if first is None or first >= log.stable:
            return
        start = chance.randrange(first, log.stable)
        end = chance.randrange(start + 1, log.stable + 1)
        aborted = log.aborted(start, end)
        aborted_by_hand = sorted(
            (first, producer)
            for first, producer, commits, last in all_of_it
            if commits is False and last is not None and first < end and last >= start
        )
        if self.known_from == self.known_start == 0:
            assert [one[::-1] for one in aborted] == aborted_by_hand
        records = [one for one in self.disk.entries if start <= one.base < end]
        dropped = {(first, producer) for first, producer in aborted_by_hand}
        wanted = [one for one in records if not self._is_in(one, dropped)]
        assert list(delivered(records, aborted)) == [
            one for one in wanted if one.marker is None
        ]

    def _is_in(self, one: Entry, dropped: set[tuple[int, int]]) -> bool:
        """Whether a batch is of one of these aborted transactions."""
        if not one.is_transactional:
            return False
        ends = {
            (first, producer): last
            for first, producer, _, last in transactions_of(self.disk.entries)
        }
        return any(
            producer == one.producer
            and first <= one.base < (ends[first, producer] or 0)
            for first, producer in dropped
        )


def delivered(
    entries: list[Entry], aborted: list[AbortedTransaction]
) -> Iterator[Entry]:
    """What Kafka's consumer gives its application (``CompletedFetch``)."""
    waiting, skipped = deque(aborted), set[int]()
    for one in entries:
        while waiting and waiting[0].first_offset <= one.base + one.count - 1:
            skipped.add(waiting.popleft().producer_id)
        if one.marker is not None:
            if not one.marker.commit:
                skipped.discard(one.producer)
        elif not one.is_transactional or one.producer not in skipped:
            yield one


Found = list[tuple[int, int, bool | None, int | None]]


def transactions_of(entries: list[Entry]) -> Found:
    """(first offset, producer, how it ended, its marker) of every transaction."""
    opened: dict[int, int] = {}
    found: Found = []
    for one in entries:
        if not one.is_transactional:
            continue
        if one.marker is None:
            opened.setdefault(one.producer, one.base)
        elif one.producer in opened:
            first = opened.pop(one.producer)
            found.append((first, one.producer, one.marker.commit, one.base))
    found.extend((first, producer, None, None) for producer, first in opened.items())
    return found


def step(story: Story, chance: random.Random) -> None:
    """Anything that may come next."""
    steps: dict[Callable[[random.Random], None], float] = {
        story.produce: 8,
        story.produce_plainly: 2,
        story.produce_outside: 1,
        story.mark: 5,
        story.checkpoint: 2,
        story.checkpoint_late: 1,
        story.delete_records: 1,
        story.compact_and_release: 1,
        story.crash: 1,
        story.lose_the_checkpoint: 1 / 4,
    }
    if story.queue:
        steps[story.write] = 14
    chance.choices([*steps], [*steps.values()])[0](chance)


@pytest.mark.parametrize("bumps", [False, True])
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_stable_and_what_was_aborted_follow_from_the_entries(
    bumps: bool, seed: int
) -> None:
    story, chance = Story(bumps), random.Random(seed)
    for _ in range(80):
        step(story, chance)
        story.check(chance)
