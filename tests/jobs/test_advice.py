"""Whoever follows each reason's advice at once loses what is damaged or open, and no
more: random partitions with transactions and damage, against what was written."""

import random

import pytest

from broker.records.batch import assign
from broker.records.layout import TRANSACTIONAL_BIT
from broker.records.markers import Marker, marker_batch
from jobs.backlog import LOOK_AGAIN_MS
from jobs.compactor import Compactor
from lakehouse.log.delta_log import load, table_ends
from tests.jobs.world import World, start_at
from tests.support.batches import Record, make_batch
from tests.support.damage import RECORDS_AT

PRODUCERS = (1, 2, 3)


class Written:
    """A batch as it was written. ``ended``: how its transaction was, None: not yet."""

    def __init__(self, base: int, count: int, batch: bytes, ended: bool | None) -> None:
        self.offsets = range(base, base + count)
        self.batch, self.ended = batch, ended
        self.is_damaged = False
        self.decided_by: list[Written] = []
        """All of its transaction, with the marker, and what stands between."""


class Story:
    """One partition, written and damaged at random; its table keeps all.

    ``bumps``: by version 2 of transactions, where each has an epoch, and markers do not
    say where theirs begins. ``tears``: of some batches nothing tells that they stood
    there, which is found at a start; and no marker says where its transaction begins.
    """

    def __init__(
        self, world: World, seed: int, *, bumps: bool, tears: bool = False
    ) -> None:
        self.world, self.random, self.bumps = world, random.Random(seed), bumps
        self.tears, self.says_start = tears, not (bumps or tears)
        self.topic = world.topic("t", configs={"lake.retention.ms": "-1"})
        self.written: list[Written] = []
        self.open: dict[int, list[Written]] = {}
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.end = 0

    def write(self) -> None:
        steps = [self.plain] * 3 + [self.transactional] * 4 + [self.marker] * 3
        steps += [self.tear] if self.tears else [self.roll, self.damage]
        for _ in range(self.random.randint(12, 30)):
            self.random.choice(steps)()
        for producer in PRODUCERS:
            self.marker(producer)
        self.plain()

    def plain(self) -> None:
        count = self.random.randint(1, 4)
        self._append(make_batch([Record(b"k")] * count, self.end), count, ended=True)

    def transactional(self) -> None:
        producer, count = self.random.choice(PRODUCERS), self.random.randint(1, 4)
        batch = make_batch(
            [Record(b"k")] * count, self.end,
            producer=(producer, self.epochs[producer], 0),
            attributes=TRANSACTIONAL_BIT,
        )  # fmt: skip
        one = self._append(batch, count, ended=None)
        self.open.setdefault(producer, []).append(one)

    def marker(self, producer: int = 0) -> None:
        producer = producer or self.random.choice(PRODUCERS)
        if producer not in self.open:
            return
        its, commit = self.open.pop(producer), self.random.random() < 0.7
        self.epochs[producer] += self.bumps
        start = its[0].offsets.start if self.says_start else None
        marker = Marker(commit).starting(start, self.end)
        batch = marker_batch(producer, self.epochs[producer], marker, 0)
        assign(batch, self.end)
        end = self._append(batch, 1, ended=False)
        since = self.written.index(its[0])
        for one in its:
            one.ended = commit
            one.decided_by = [end] if self.says_start else self.written[since:]

    def roll(self) -> None:
        segments = self.world.wal.segments()
        if segments and not segments[-1].sealed:
            self.world.roll()

    def damage(self) -> None:
        """One bit of one of the last batches, where it lies."""
        if one := self._whole_one():
            at = self.random.randrange(len(one.batch))
            self._flip(one, at, 1 << self.random.randrange(8))

    def tear(self) -> None:
        """One of the last batches, and its entry's header, in a log that is opened
        then: the segments that it finds have no footer."""
        if one := self._whole_one():
            self._flip(one, -4, 1)
            self._flip(one, RECORDS_AT, 1)
            self.world.restart_log(is_whole=False)

    def _whole_one(self) -> Written | None:
        if not self.written:
            return None
        one = self.random.choice(self.written[-6:])
        return None if one.is_damaged else one

    def _flip(self, one: Written, at: int, bits: int) -> None:
        """Change these bits at a place from where a batch begins."""
        for path in (self.world.data_dir / "wal").glob("*.log"):
            data = bytearray(path.read_bytes())
            base = data.find(one.batch)
            if base >= 0:
                data[base + at] ^= bits
                path.write_bytes(data)
                one.is_damaged = True

    def _append(self, batch: bytearray, count: int, *, ended: bool | None) -> Written:
        one = Written(self.end, count, bytes(batch), ended)
        self.world.append(self.topic, batch)
        self.written.append(one)
        produced = self.world.produced.setdefault((self.topic.number, 0), [])
        produced += [Record(offset=at) for at in one.offsets]
        self.end += count
        return one

    def give_up(self, end: int) -> None:
        """As DeleteRecords does; segments of which nothing is needed go."""
        start_at(self.world, self.topic, end)
        if not (self.world.path(self.topic) / "_delta_log").exists():
            return
        snapshot = load(str(self.world.path(self.topic)))
        table_end = table_ends(snapshot, self.topic.id.hex()).get(0, 0)
        self.world.checkpoint()
        key, followed = (self.topic.number, 0), max(end, table_end)
        for info in list(self.world.wal.segments()):
            if info.sealed and info.ranges.get(key, (0, 0))[1] <= followed:
                self.world.wal.release(info.sequence)
        self.world.wait_for_recycler()

    @property
    def committed(self) -> set[int]:
        return {at for one in self.written if one.ended for at in one.offsets}

    @property
    def sure(self) -> set[int]:
        """The same, of whole batches of which a whole marker is sure to say so."""
        return {
            at
            for one in self.written
            if one.ended and not any(each.is_damaged for each in (one, *one.decided_by))
            for at in one.offsets
        }


def follow(story: Story, compactor: Compactor) -> None:
    """Take each advice as soon as it is told, until nothing waits."""
    world, given_up = story.world, 0
    for turn in range(60):
        if turn % 2:
            world.clock.advance(LOOK_AGAIN_MS)
            world.flush(compactor)
        compactor.step()
        problems = [p for p in compactor.status().problems if "cannot be" in p]
        if turn % 2 and not problems and not compactor.status().tables:
            return
        advice = [p for p in problems if "DeleteRecords before " in p]
        if advice:
            end = int(advice[0].rsplit(" ", 1)[1])
            assert given_up <= end <= story.end
            story.give_up(end)
            given_up = end
    pytest.fail(f"it is stuck: {problems}")


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize("seed", [9, 17, 21, 48])
def test_advice_that_is_followed_costs_nothing_that_is_sure(
    world: World, seed: int, *, bumps: bool
) -> None:
    costs_nothing_that_is_sure(Story(world, seed, bumps=bumps))


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize("seed", [6, 25, 30])
def test_nor_where_it_is_not_known_what_stood_there(
    world: World, seed: int, *, bumps: bool
) -> None:
    costs_nothing_that_is_sure(Story(world, seed, bumps=bumps, tears=True))


def costs_nothing_that_is_sure(story: Story) -> None:
    story.write()
    world = story.world
    follow(story, world.compactor())
    there = [record.offset for record in world.rows(story.topic)]
    assert story.sure <= set(there) <= story.committed
    assert len(there) == len(set(there))
