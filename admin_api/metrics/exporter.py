"""Topics and groups under kafka_exporter's names, so that its dashboards light up.

The broker is asked for them, at most once in `FRESH_MS` whoever scrapes how often, for
a tenth of the time at most, and for no more than `PARTITIONS_MAX` partitions,
`GROUPS_MAX` groups and `OFFSETS_MAX` of their offsets: what is beyond is counted and
left out. No label is anything that a client makes up beside names of topics and groups.

Prometheus gives a scrape up after some seconds, and takes the plane for dead then; ten
thousand partitions take longer on a busy machine. So whoever scrapes waits for a while
and gets the figures of before if there are no newer ones.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.internal import Internal
from admin_api.kafka import Kafka, Watermarks
from admin_api.problems import Problem
from broker.clock import Clock

FRESH_MS: Final = 10_000
ALIVE_S: Final = 5.0
"""A broker that does not say its name in time is none."""
TIMEOUT_S: Final = 30.0
"""For the offsets of all partitions."""
WAIT_S: Final = 5.0
SHARE: Final = 10
"""Of this many moments the broker is asked for one."""
PARTITIONS_MAX: Final = 10_000
GROUPS_MAX: Final = 500
OFFSETS_MAX: Final = 20_000
"""Of all groups together; a group is shown whole or not at all."""

Key = tuple[str, int]


class Traffic(NamedTuple):
    """What a topic got and gave since the broker began."""

    records_in: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What the broker said."""

    nodes: tuple[Any, ...] = ()
    partitions: Mapping[Key, Any] = field(default_factory=dict)
    """librdkafka's PartitionMetadata."""
    marks: Mapping[Key, Watermarks] = field(default_factory=dict)
    committed: Mapping[str, Mapping[Key, int]] = field(default_factory=dict)
    members: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """By topic; of those that were produced to, or read, since the broker began."""
    sizes: Mapping[Key, int] = field(default_factory=dict)
    """Bytes of a partition, in the log and in its table."""


class Exporter:
    """Figures of the broker, a few seconds old where that can be."""

    def __init__(
        self, kafka: Kafka, clock: Clock, internal: Internal, wait_s: float = WAIT_S
    ) -> None:
        self._kafka, self._clock, self._internal = kafka, clock, internal
        self._wait_s = wait_s
        self._figures: Figures | None = None
        self._at_ms = self._due_ms = clock.monotonic_ms()
        self._asking: asyncio.Task[None] | None = None

    @property
    def age_s(self) -> float:
        """How long ago the broker began to answer what the figures say."""
        return (self._clock.monotonic_ms() - self._at_ms) / 1000

    async def figures(self) -> Figures | None:
        """What there is, waited for ``wait_s`` at most; None while the broker does not
        answer, and before it first did."""
        if self._asking is None and self._clock.monotonic_ms() >= self._due_ms:
            self._asking = asyncio.create_task(self._ask())
        asking = self._asking
        if asking is not None:
            done, _ = await asyncio.wait({asking}, timeout=self._wait_s)
            for one in done:
                one.result()  # a fault of ours is told as one
        return self._figures

    async def _ask(self) -> None:
        began_ms = self._clock.monotonic_ms()
        try:
            self._figures = await self._gather()
        except KafkaException:
            self._figures = None
        finally:
            self._asking = None
        self._at_ms, took_ms = began_ms, self._clock.monotonic_ms() - began_ms
        self._due_ms = began_ms + max(FRESH_MS, SHARE * took_ms)

    async def _gather(self) -> Figures:
        kafka = self._kafka
        nodes = (await kafka.cluster(ALIVE_S)).nodes
        every = {
            (name, number): partition
            for name, topic in sorted((await kafka.topics()).items())
            for number, partition in sorted(topic.partitions.items())
        }
        chosen = dict(list(every.items())[:PARTITIONS_MAX])
        marks = await kafka.watermarks(list(chosen), TIMEOUT_S)
        groups = sorted(await kafka.groups())
        members = await self._members(groups[:GROUPS_MAX])
        committed = await self._committed(groups[:GROUPS_MAX])
        whole = members.keys() & committed.keys()
        left_out = len(every) - len(chosen) + len(groups) - len(whole)
        traffic = await self._traffic({topic for topic, _ in chosen})
        sizes = await self._sizes(chosen)
        return Figures(
            tuple(nodes), chosen, marks, committed, members, left_out, traffic, sizes
        )

    async def _traffic(self, topics: Collection[str]) -> dict[str, Traffic]:
        """Of these topics."""
        rows = await self._rows("topics", ("topic", *Traffic._fields))
        return {
            row["topic"]: Traffic(*(row[name] for name in Traffic._fields))
            for row in rows
            if row["topic"] in topics
        }

    async def _sizes(self, partitions: Collection[Key]) -> dict[Key, int]:
        """Of these partitions."""
        rows = await self._rows("sizes", ("topic", "partition", "bytes"))
        return {
            key: row["bytes"]
            for row in rows
            if (key := (row["topic"], row["partition"])) in partitions
        }

    async def _rows(
        self, question: str, needs: Sequence[str]
    ) -> Sequence[Mapping[str, Any]]:
        """What the broker's own endpoint says; nothing without one."""
        try:
            return await self._internal.rows(question, needs)
        except Problem:
            return ()

    async def _members(self, groups: list[str]) -> dict[str, int]:
        """How many each of the groups has that can be described."""
        described = await self._kafka.describe_groups(groups)
        known = (one for one in described if not isinstance(one, KafkaException))
        return {one.group_id: len(one.members) for one in known}

    async def _committed(self, groups: list[str]) -> dict[str, dict[Key, int]]:
        """The offsets of the groups that can be asked for and fit into
        `OFFSETS_MAX`."""
        found: dict[str, dict[Key, int]] = {}
        room = OFFSETS_MAX
        for group in groups:
            offsets = await self._kafka.committed_or_none(group)
            if offsets is None or len(offsets) > room:
                continue
            found[group] = offsets
            room -= len(offsets)
        return found


def families(found: Figures, age_s: float = 0.0) -> Iterator[Metric]:
    """All of them; a label has the names that kafka_exporter gives it."""
    yield GaugeMetricFamily(
        "lakelog_metrics_age_seconds",
        "How old the figures of topics and groups are.",
        age_s,
    )
    yield GaugeMetricFamily(
        "kafka_brokers", "Brokers of the cluster.", float(len(found.nodes))
    )
    info = GaugeMetricFamily(
        "kafka_broker_info",
        "A broker of the cluster, and its address.",
        labels=["id", "address"],
    )
    for node in found.nodes:
        info.add_metric([str(node.id), f"{node.host}:{node.port}"], 1.0)
    yield info
    yield GaugeMetricFamily(
        "lakelog_metrics_left_out",
        "Partitions and groups that are not all shown: too many, or not to be asked.",
        float(found.left_out),
    )
    yield from _topics(found)
    yield from _groups(found)


def _topics(found: Figures) -> Iterator[Metric]:
    counts: dict[str, int] = {}
    for name, _ in found.partitions:
        counts[name] = counts.get(name, 0) + 1
    total = GaugeMetricFamily(
        "kafka_topic_partitions", "Partitions of the topic.", labels=["topic"]
    )
    for name, count in counts.items():
        total.add_metric([name], float(count))
    yield total
    produced = CounterMetricFamily(
        "lakelog_topic_bytes_in",
        "Bytes of record batches that the topic got since the broker began.",
        labels=["topic"],
    )
    for name, traffic in found.traffic.items():
        produced.add_metric([name], float(traffic.bytes_in))
    yield produced
    figures = {
        "current_offset": ("Offset that the next record gets.", _end_of),
        "oldest_offset": ("Offset of the oldest record.", _start_of),
        "leader": (
            "Number of the broker that leads the partition.",
            lambda _, p: p.leader,
        ),
        "replicas": ("Copies of the partition.", lambda _, p: len(p.replicas)),
        "in_sync_replica": (
            "Copies of the partition that are in sync.",
            lambda _, p: len(p.isrs),
        ),
        "leader_is_preferred": (
            "1 if the leader is the one that is preferred, as it always is.",
            lambda _, p: p.leader == p.replicas[0],
        ),
        "under_replicated_partition": (
            "1 if copies of the partition are missing.",
            lambda _, p: len(p.isrs) < len(p.replicas),
        ),
    }
    for name, (sentence, value_of) in figures.items():
        family = GaugeMetricFamily(
            f"kafka_topic_partition_{name}", sentence, labels=["topic", "partition"]
        )
        for key, partition in found.partitions.items():
            value = value_of(found.marks.get(key), partition)
            if value is not None:
                family.add_metric([key[0], str(key[1])], float(value))
        yield family


def _end_of(marks: Watermarks | None, _: Any) -> int | None:
    return None if marks is None else marks.high_watermark


def _start_of(marks: Watermarks | None, _: Any) -> int | None:
    return None if marks is None else marks.log_start


def _groups(found: Figures) -> Iterator[Metric]:
    prefix = "kafka_consumergroup"
    each, by_topic = ["consumergroup", "topic", "partition"], ["consumergroup", "topic"]
    offset = GaugeMetricFamily(
        f"{prefix}_current_offset", "Offset that the group committed.", labels=each
    )
    lag = GaugeMetricFamily(
        f"{prefix}_lag", "Records that the group has not read.", labels=each
    )
    offsets = GaugeMetricFamily(
        f"{prefix}_current_offset_sum",
        "Sum of the offsets that the group committed.",
        labels=by_topic,
    )
    lags = GaugeMetricFamily(
        f"{prefix}_lag_sum",
        "Records of the topic that the group has not read.",
        labels=by_topic,
    )
    members = GaugeMetricFamily(
        f"{prefix}_members", "Members of the group.", labels=["consumergroup"]
    )
    for group, count in found.members.items():
        members.add_metric([group], float(count))
    for group, committed in found.committed.items():
        sums: dict[str, tuple[int, int]] = {}
        for (topic, number), at in sorted(committed.items()):
            marks = found.marks.get((topic, number))
            if marks is None:
                continue
            behind = max(0, marks.last_stable_offset - at)
            offset.add_metric([group, topic, str(number)], float(at))
            lag.add_metric([group, topic, str(number)], float(behind))
            before = sums.get(topic, (0, 0))
            sums[topic] = before[0] + at, before[1] + behind
        for topic, (at, behind) in sums.items():
            offsets.add_metric([group, topic], float(at))
            lags.add_metric([group, topic], float(behind))
    yield from (offset, lag, offsets, lags, members)
