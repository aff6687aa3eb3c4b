"""Producers, zombies, a slow catalog and crashes at any moment, against a naive judge.

The judge knows nothing of states. It sees the rows that became durable, the markers
that were written and the answers, and holds three promises against them: a transaction
ends in one way for ever, with a marker for each part that anybody was told is in it;
who was told how a transaction ended was told the truth; and nobody goes on once a
successor has its epoch.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import ErrorCode
from broker.transactions.commands import (
    Add,
    Added,
    End,
    Ended,
    Initialized,
    InitProducer,
    MarkersWritten,
)
from broker.transactions.ending import uncompleted
from broker.transactions.metadata import EPOCH_MAX, TransactionMetadata
from broker.transactions.snapshot import decode, encode
from tests.broker.transactions.book import MINUTE_MS, Book

FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE


@dataclass
class Producer:
    """One instance; ``generation`` counts those that began before it."""

    generation: int
    version: int
    id: int
    epoch: int
    waits: bool = False


@dataclass
class Judged:
    """A transaction as the outside sees it."""

    promised: set[Any] = field(default_factory=set)
    commit: bool | None = None
    marked_with: tuple[int, int] | None = None


@dataclass(frozen=True)
class Asked:
    producer: Producer | None
    command: Any
    generation: int


class World:
    """One transactional id among its producers."""

    def __init__(self, version: int, first_epoch: int) -> None:
        self.book = Book(version=version)
        if first_epoch >= 0:
            metadata = TransactionMetadata(10, first_epoch, timeout_ms=MINUTE_MS)
            self.book.begin(metadata)
            self.book.row = encode(metadata)
        self.book.holds_writes = self.book.holds_markers = True
        self.version = version
        self.producers: list[Producer] = []
        self.said: list[Asked] = []
        self.asked: dict[int, Asked] = {}
        self.tickets = 0
        self.generation = -1
        self.given: set[tuple[int, int]] = set()
        self.current: Judged | None = None
        self.last = Judged()

    # -- what is said -------------------------------------------------------------

    def ask(self, producer: Producer | None, command: Any) -> None:
        self.tickets += 1
        self.asked[self.tickets] = Asked(producer, command, self.generation)
        if producer is not None:
            producer.waits = True
        new_id = {} if isinstance(command, Add) else {"new_producer_id": self.new_id()}
        self.book.say(replace(command, ticket=self.tickets, **new_id))
        self.hear()

    def new_id(self) -> int:
        return next(self.book.ids) + 1_000

    def init(self, chance: random.Random) -> None:
        self.ask(None, InitProducer(MINUTE_MS))

    def bump(self, chance: random.Random) -> None:
        producer = chance.choice(self.producers)
        self.say(producer, InitProducer(MINUTE_MS, producer.id, producer.epoch))

    def add(self, chance: random.Random) -> None:
        producer = chance.choice(self.producers)
        parts = frozenset((1, chance.randrange(4)) for _ in range(chance.randrange(3)))
        groups = frozenset("g" * chance.randrange(2))
        ids = producer.id, producer.epoch
        self.say(producer, Add(*ids, parts, groups, producer.version))

    def end(self, chance: random.Random) -> None:
        producer = chance.choice(self.producers)
        commit, ids = chance.random() < 0.6, (producer.id, producer.epoch)
        self.say(producer, End(*ids, commit, producer.version))

    def say(self, producer: Producer, command: Any) -> None:
        """A producer waits for its answers, but for those of its adds."""
        if not producer.waits or isinstance(command, Add):
            self.said.append(Asked(producer, command, self.generation))
            self.ask(producer, command)

    def say_again(self, chance: random.Random) -> None:
        """A request that was delayed on its way, or is tried again."""
        asked = chance.choice(self.said[-8:])
        self.ask(asked.producer, asked.command)

    # -- what the catalog, the partitions and time do -------------------------------

    def store(self, chance: random.Random, failures: float = 0.2) -> None:
        failed = chance.random() < failures
        at = chance.randrange(len(self.book.stores)) if failed else 0
        if not failed:
            _, event = self.book.stores[0]
            self.judge_row(event.metadata)
        self.book.store_one(FAILED if failed else ErrorCode.NONE, at)
        self.hear()

    def mark(self, chance: random.Random) -> None:
        owed = self.book.transaction.owed
        current = self.current or self.last
        assert owed.commit is current.commit, "it ends in another way than was decided"
        promised, marked = current.promised, (owed.producer_id, owed.producer_epoch)
        if current.marked_with is not None:  # again, but for its groups
            promised = {part for part in promised if not isinstance(part, str)}
            assert current.marked_with == marked, "another producer is decided about"
        assert promised <= owed.partitions | owed.groups, "a part is left open"
        current.marked_with = marked
        self.last, self.current = current, None
        self.book.say(MarkersWritten(owed.serial))
        self.hear()

    def tick(self, chance: random.Random) -> None:
        self.book.tick(chance.choice([1, 500, 5_000, MINUTE_MS]))
        self.hear()

    def crash(self, chance: random.Random) -> None:
        """Some of what was on its way became durable, and nobody heard of it."""
        stores = [event.metadata for _, event in self.book.stores]
        for metadata in stores[: chance.randrange(len(stores) + 1)]:
            self.judge_row(metadata)
            self.book.row = encode(metadata)
        self.book.crash()
        if self.book.metadata.is_complete and chance.random() < 0.5:
            # its markers are lost: they are written again
            self.book.begin(uncompleted(self.book.metadata))
        self.asked.clear()
        for producer in self.producers:
            producer.waits = False

    # -- the judge ------------------------------------------------------------------

    def judge_row(self, metadata: TransactionMetadata) -> None:
        if metadata.state == "Ongoing":
            self.current = self.current or Judged()
        elif metadata.is_prepared:
            self.current = self.current or Judged()
            assert self.current.commit is None, "it was decided before"
            self.current.commit = metadata.state == "PrepareCommit"
        else:
            assert self.current is None, "a transaction is forgotten before its markers"
        assert decode(encode(metadata)) == metadata

    def hear(self) -> None:
        for ticket in [one for one in self.book.answers if one in self.asked]:
            asked, reply = self.asked.pop(ticket), self.book.answers.pop(ticket)
            if asked.producer is not None:
                asked.producer.waits = False
            self.judge(asked, reply)
        self.book.answers.clear()  # of who was there before a crash

    def judge(self, asked: Asked, reply: Any) -> None:
        producer = asked.producer
        succeeds = isinstance(reply, Added | Ended | Initialized)
        if succeeds and producer is not None:
            assert producer.generation >= asked.generation, "a zombie goes on"
        match reply:
            case Added():
                self.judge_added(asked.command)
            case Ended():
                self.judge_ended(asked, reply)
            case Initialized():
                self.judge_initialized(asked, reply)

    def judge_added(self, command: Add) -> None:
        assert self.current is not None or not command.partitions | command.groups
        if self.current is not None:
            self.current.promised |= command.partitions | command.groups

    def judge_ended(self, asked: Asked, reply: Ended) -> None:
        command, last = asked.command, self.last
        assert last.commit is command.commit, "it ended in the other way"
        if command.version == 2:
            assert last.marked_with == (command.producer_id, command.producer_epoch + 1)
            self.move(asked, reply)

    def judge_initialized(self, asked: Asked, reply: Initialized) -> None:
        if asked.producer is not None:
            self.move(asked, reply)
            return
        assert (reply.producer_id, reply.producer_epoch) not in self.given
        self.given.add((reply.producer_id, reply.producer_epoch))
        self.generation += 1
        self.producers.append(
            Producer(
                self.generation, self.version, reply.producer_id, reply.producer_epoch
            )
        )

    def move(self, asked: Asked, reply: Ended | Initialized) -> None:
        """The producer goes on under another epoch, unless it did since it asked."""
        producer, command = asked.producer, asked.command
        if (producer.id, producer.epoch) == (
            command.producer_id,
            command.producer_epoch,
        ):
            producer.id, producer.epoch = reply.producer_id, reply.producer_epoch
        self.given.add((reply.producer_id, reply.producer_epoch))

    def finish(self) -> None:
        """With a catalog and partitions that work, nothing stays open."""
        book = self.book
        for _ in range(4):
            while book.stores or book.transaction.owed:
                if book.stores:
                    self.store(random.Random(), failures=0)
                else:
                    self.mark(random.Random())
            book.tick(MINUTE_MS)
            self.hear()
        assert not book.stores
        assert book.metadata.is_idle
        assert not self.asked, "somebody waits for ever"


def step(world: World, chance: random.Random) -> None:
    """Anything that may come next."""
    steps: dict[Callable[[random.Random], None], int] = {
        world.init: 2,
        world.tick: 2,
        world.crash: 1,
    }
    if world.producers:
        steps |= {world.add: 8, world.end: 6, world.bump: 1}
    if world.said:
        steps[world.say_again] = 3
    if world.book.stores:
        steps[world.store] = 16
    if world.book.transaction.owed:
        steps[world.mark] = 10
    chance.choices([*steps], [*steps.values()])[0](chance)


@pytest.mark.parametrize("first_epoch", [-1, EPOCH_MAX - 4])
@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_is_lied_to_and_nothing_stays_open(
    version: int, first_epoch: int, seed: int
) -> None:
    world, chance = World(version, first_epoch), random.Random(seed)
    for _ in range(80):
        step(world, chance)
    world.finish()
