"""Days of topics, simulated: how many files they make and how long records wait."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np
import pytest

from broker.ids import PartitionNumber, TopicNumber
from broker.settings import LakeSettings
from broker.topics.topic import Topic
from jobs.batches import Batches, Places
from jobs.planner import Item, Pending
from jobs.rhythm import Rhythm

STEP_MS = 200
QUARTER_MS = 900_000
Arrivals = Callable[[int], int]
"""Bytes of a partition that come in the step that ends at a time, ms."""


def topic(number: int, partitions: int = 1, **configs: str) -> Topic:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(TopicNumber(number), bytes(16), f"t{number}", partitions, named)


class Day:
    """Topics that get bytes, and a compactor that takes no time for a round."""

    def __init__(self, *arrivals: tuple[Topic, Arrivals], **lake: int) -> None:
        self._arrivals = arrivals
        self._topics = {topic.number: topic for topic, _ in arrivals}
        self._rhythm = Rhythm(LakeSettings(**lake))
        self._pending: dict[tuple[TopicNumber, PartitionNumber], list[list[int]]] = {}
        self.files: dict[str, int] = dict.fromkeys((t.name for t, _ in arrivals), 0)
        self.waited_ms: dict[str, list[int]] = {t.name: [] for t, _ in arrivals}
        self.rounds = 0

    def run(self, length_ms: int) -> "Day":
        for now_ms in range(STEP_MS, length_ms + 1, STEP_MS):
            self._arrive(now_ms)
            self._round(now_ms)
        return self

    def _arrive(self, now_ms: int) -> None:
        for topic, comes in self._arrivals:
            size = comes(now_ms)
            for index in range(topic.partitions if size else 0):
                self._pending.setdefault(topic.key(index), []).append([now_ms, size])

    def _round(self, now_ms: int) -> None:
        pending = [
            Pending(key, 0, [batches(sum(size for _, size in came))], came[0][0])
            for key, came in self._pending.items()
        ]
        due = due_of(self._rhythm, pending, self._topics, now_ms)
        items = [Item(one.key, 0, 1, tuple(one.chunks), one.bytes) for one in due]
        self._rhythm.note(items, {one.key for one in due}, self._topics, now_ms)
        self.rounds += bool(due)
        for one in due:
            name = self._topics[one.key[0]].name
            self.files[name] += 1
            came = self._pending.pop(one.key)
            self.waited_ms[name] += [now_ms - at_ms for at_ms, _ in came]


def due_of(
    rhythm: Rhythm,
    pending: Sequence[Pending],
    topics: Mapping[TopicNumber, Topic],
    now_ms: int,
    asked: frozenset[TopicNumber] = frozenset(),
) -> list[Pending]:
    waiting = rhythm.by_topic(pending, now_ms)
    return rhythm.due(pending, waiting, topics, asked)


def batches(size: int) -> Batches:
    one = np.ones(1, np.int64)
    return Batches.all_of(1, "segment", Places.of(one, one, one, one * size))


def every(period_ms: int, size: int) -> Arrivals:
    return lambda now_ms: size if now_ms % period_ms == 0 else 0


def flow(bytes_per_s: int) -> Arrivals:
    return every(STEP_MS, bytes_per_s * STEP_MS // 1000)


@pytest.mark.parametrize(
    ("comes", "before", "files", "waits_ms"),
    [  # files of 15 minutes, as each 2.5 seconds would make them and as they are
        (flow(2_000_000), 321, 321, 2_600),  # 20 MB/s over ten topics
        (flow(200_000), 321, 237, 3_600),  # and ten partitions each
        (flow(50_000), 321, 122, 7_200),
        (flow(10_000), 321, 55, 16_200),
        (flow(1_000), 321, 18, 51_200),
        (every(1_000, 100), 299, 15, 59_600),
        (every(10_000, 100), 89, 15, 52_600),
        (every(70_000, 100), 12, 12, 2_600),  # it rests in between
    ],
)
def test_what_trickles_makes_few_files_and_what_flows_goes_at_once(
    comes: Arrivals, before: int, files: int, waits_ms: int
) -> None:
    alike = Day((topic(1), comes), flush_max_ms=2_500).run(QUARTER_MS)
    day = Day((topic(1), comes)).run(QUARTER_MS)
    assert alike.files["t1"] == pytest.approx(before, rel=0.05)
    assert day.files["t1"] == pytest.approx(files, rel=0.05)
    assert max(day.waited_ms["t1"]) == pytest.approx(waits_ms, rel=0.05)


def test_a_busy_topic_beside_trickling_ones_is_as_fresh_as_alone() -> None:
    trickles = [(topic(n), every(1_000 * n, 100)) for n in range(2, 12)]
    day = Day((topic(1), flow(2_000_000)), *trickles).run(QUARTER_MS)
    assert median(day.waited_ms["t1"]) <= 1_300
    trickling = {name: n for name, n in day.files.items() if name != "t1"}
    assert max(trickling.values()) <= 15 * 60 / 45 + 1  # from 45 s on they come along


def test_rounds_of_many_trickling_topics_stay_few() -> None:
    trickles = [(topic(n), every(1_000 * (n % 13 + 1), 100)) for n in range(30)]
    day = Day(*trickles).run(QUARTER_MS // 3)
    assert day.rounds <= 5 * 60 / 1.25
    assert max(map(max, day.waited_ms.values())) <= 60_000


def test_the_end_of_a_flow_waits_no_longer_than_the_rest_of_it() -> None:
    def comes(now_ms: int) -> int:
        return 400_000 if now_ms <= 61_000 else 0

    day = Day((topic(1), comes)).run(QUARTER_MS // 7)
    assert max(day.waited_ms["t1"]) == 2_600


def test_a_topics_own_bound_holds() -> None:
    hurried = topic(1, lake_flush_max_ms="1000")
    patient = topic(2, lake_flush_max_ms="600000")
    day = Day((hurried, every(400, 1)), (patient, every(400, 1))).run(2 * QUARTER_MS)
    assert max(day.waited_ms["t1"]) == 1_000
    assert max(day.waited_ms["t2"]) <= 600_000
    assert day.files["t2"] <= 4


def test_a_flush_that_is_longer_than_the_bound_of_trickles_holds_for_both() -> None:
    day = Day((topic(1), every(400, 9)), flush_ms=120_000).run(QUARTER_MS)
    assert max(day.waited_ms["t1"]) == 120_000


def test_who_asks_is_served_at_once_and_a_topic_that_is_gone_is_forgotten() -> None:
    rhythm, key = Rhythm(LakeSettings()), (TopicNumber(1), PartitionNumber(0))
    topics = {TopicNumber(1): topic(1)}
    pending = [Pending(key, 0, [batches(10)], 999)]
    asked = frozenset({TopicNumber(1)})
    assert due_of(rhythm, pending, topics, 1_000, asked) == pending
    rhythm.note([Item(key, 0, 1, (), 10)], {key}, topics, 1_000)
    assert due_of(rhythm, pending, topics, 20_000) == []
    waiting = rhythm.by_topic(pending, 70_000)
    assert rhythm.overdue_ms(waiting, topics) == 9_001
    assert rhythm.overdue_ms({}, topics) == 0
    rhythm.note([], set(), {}, 20_000)
    assert due_of(rhythm, pending, topics, 20_000) == pending
