"""What a broker answers to the versions that only clients before 0.11 send, over raw
frames.

``table(bootstrap)`` asks Produce 0 to 2, Fetch 0 to 3, ListOffsets 0 and 1,
OffsetCommit 1, OffsetFetch 1, CreateTopics, DeleteTopics, DescribeConfigs,
OffsetForLeaderEpoch and Metadata 0 and 1: what is right, what is wrong, and what is not
there. The answers come as lines, without what a broker makes up; versions that are
answered alike share one.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

from broker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from broker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.batches import Record, make_batch
from tests.support.corners import span
from tests.support.message_sets import consumed, message, produced
from tests.support.peer import Peer
from tests.support.reached import telling

PATIENCE_S = 60.0
T = 1_700_000_000_000
RECORDS = [
    Record(b"k", b"v", timestamp=T),
    Record(None, b"n", timestamp=T + 5),
    Record(b"t", None, timestamp=T + 3),
]
NOWHERE, UNNAMEABLE = "no-such-topic", "a b"
Answers = Iterator[tuple[str, int, Any]]
"""(case, version, answer)"""


@telling
def table(bootstrap: str) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``."""
    versions: dict[tuple[str, str], set[str]] = {}
    with Peer(bootstrap, PATIENCE_S) as peer:
        for case, version, answer in Corners(peer).answers():
            versions.setdefault((case, repr(answer)), set()).add(f"v{version}")
    return sorted(
        f"{case}   {span(list(those))}: {answer}"
        for (case, answer), those in versions.items()
    )


def _since(stamp_ms: int) -> int | str:
    """A timestamp as it is compared: after T; unknown (-1); or the broker's own."""
    if stamp_ms > T + 10:
        return "now"
    return stamp_ms - T if stamp_ms >= 0 else stamp_ms


def _codes(parts: Any) -> list[int]:
    return [int(one.error_code) for one in parts]


class Corners:
    """One broker, and topics of this run's own on it."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.run = os.urandom(3).hex()
        self.topic = self.create("plain")

    def create(self, name: str, **configs: str) -> str:
        """A new topic that can be written to; its name."""
        topic = f"{name}-{self.run}"
        given = [
            CreatableTopicConfig(key.replace("_", "."), value)
            for key, value in configs.items()
        ]
        asked = CreateTopicsRequest(
            [CreatableTopic(topic, 1, 1, configs=given)], 60_000
        )
        (answer,) = self.peer.ask(asked, 4).topics
        assert answer.error_code == 0, answer
        deadline = time.monotonic() + PATIENCE_S
        while _codes(self.list_offsets(topic, -1, 1)) != [0]:
            assert time.monotonic() < deadline, f"{topic} has no leader"
            time.sleep(0.05)
        return topic

    def answers(self) -> Answers:
        """Everything that is asked. What is read follows what was written."""
        for api in (
            self.sets, self.stamped_sets, self.bad_sets, self.fetches, self.offsets,
            self.commits, self.topics, self.epochs, self.configs, self.metadata,
        ):  # fmt: skip
            for case, version, answer in api():
                yield f"{api.__name__}, {case}", version, answer

    # -- records --------------------------------------------------------------

    def produce(self, topic: str, records: Any, version: int, **more: Any) -> Any:
        data = PartitionProduceData(more.pop("partition", 0), records)
        asked = TopicProduceData(topic, bytes(16), [data])
        request = ProduceRequest(None, more.pop("acks", -1), 60_000, [asked])
        (answer,) = self.peer.ask(request, version).responses[0].partition_responses
        stamp = answer.log_append_time_ms
        return int(answer.error_code), answer.base_offset, "now" if stamp > T else stamp

    def fetch(self, topic: str, offset: int, version: int, **more: Any) -> Any:
        part = FetchPartition(more.pop("partition", 0), fetch_offset=offset)
        part.partition_max_bytes = 1 << 20
        request = FetchRequest(
            topics=[FetchTopic(topic, partitions=[part])],
            **{"max_bytes": 50 << 20, "min_bytes": 0, "max_wait_ms": 0} | more,
        )
        (data,) = self.peer.ask(request, version).responses[0].partitions
        records = data.records or b""
        found = [
            (
                one.offset, one.key, one.value,
                _since(one.timestamp),
                one.timestamp_type,
            )
            for one in consumed(bytes(records))
        ]  # fmt: skip
        return int(data.error_code), data.high_watermark, found

    def sets(self) -> Answers:
        for magic in (0, 1):
            for codec in range(4):
                for version in range(3):
                    topic = self.create(f"m{magic}-c{codec}-v{version}")
                    made = bytes(produced(RECORDS, magic, codec))
                    case = f"magic {magic}, codec {codec}"
                    for _ in range(2):
                        answer = self.produce(topic, made, version)
                        yield f"{case}, {answer[1]}", version, answer
                    for by in range(4):
                        yield f"{case}, read", by, self.fetch(topic, 0, by)[:2]
                        found = self.fetch(topic, 3, by)[2]
                        yield f"{case}, the second", by, found

    def stamped_sets(self) -> Answers:
        topic = self.create("stamped", message_timestamp_type="LogAppendTime")
        for version in range(3):
            for magic in (0, 1):
                made = bytes(produced(RECORDS[:1], magic, 0))
                code, _, stamp = self.produce(topic, made, version)
                yield f"magic {magic}", version, (code, stamp)
        for version in range(4):
            yield "read", version, self.fetch(topic, 0, version)[2][:1]

    def bad_sets(self) -> Answers:
        corrupt = message(b"a")[:-1] + b"b"
        for version in range(3):
            for case, topic, records, more in (
                ("corrupt", self.topic, corrupt, {}),
                ("too large", self.topic, message(bytes(1_100_000)), {}),
                ("no topic", NOWHERE, message(b"a"), {}),
                ("no partition", self.topic, message(b"a"), {"partition": 9}),
                ("two acks", self.topic, message(b"a"), {"acks": 2}),
                ("today's batch", self.topic, make_batch(RECORDS[:1]), {}),
            ):
                answer = self.produce(topic, bytes(records), version, **more)
                yield case, version, (answer[0], answer[1] < 0)

    def fetches(self) -> Answers:
        for version in range(4):
            for case, topic, offset, more in (
                ("below", self.topic, -1, {}),
                ("above", self.topic, 10**6, {}),
                ("no topic", NOWHERE, 0, {}),
                ("no partition", self.topic, 0, {"partition": 9}),
                ("a debugging consumer", self.topic, 0, {"replica_id": -2}),
                ("a replica", self.topic, 0, {"replica_id": 5}),
            ):
                code, end, found = self.fetch(topic, offset, version, **more)
                yield case, version, (code, end, bool(found))

    # -- offsets --------------------------------------------------------------

    def list_offsets(self, topic: str, time: int, version: int, count: int = 9) -> Any:
        part = ListOffsetsPartition(0, -1, time, count)
        asked = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [part])])
        return self.peer.ask(asked, version).topics[0].partitions

    def offsets(self) -> Answers:
        topic, empty = self.create("listed"), self.create("empty")
        self.produce(topic, bytes(produced(RECORDS, 1, 0)), 2)
        for version in (0, 1):
            for case, name, moment in (
                ("end", topic, -1), ("start", topic, -2), ("unknown", topic, -3),
                ("later", topic, 4 * T), ("empty end", empty, -1),
                ("empty start", empty, -2), ("no topic", NOWHERE, -1),
            ):  # fmt: skip
                (one,) = self.list_offsets(name, moment, version)
                where = one.offset if version else one.old_style_offsets
                yield case, version, (int(one.error_code), where, one.timestamp)
        for moment in (0, T, T + 1, T + 4, T + 5, T + 6):
            (one,) = self.list_offsets(topic, moment, 1)
            case = f"{moment - T} after" if moment else "any time"
            yield case, 1, (one.offset, _since(one.timestamp))
        for count in (0, 1, 2):
            (one,) = self.list_offsets(topic, -1, 0, count)
            yield f"end, {count} at most", 0, one.old_style_offsets

    def commits(self) -> Answers:
        self._wait_for_coordinator()
        for member, generation in (("", -1), ("x", 1), ("", 0), ("x", -1)):
            for topic, part in ((self.topic, 0), (self.topic, 9), (NOWHERE, 0)):
                for about, stamp_ms in (
                    (None, -1), ("m", -1), ("x" * 5000, -1), ("", 5),
                ):  # fmt: skip
                    size = None if about is None else len(about)
                    group = f"g{generation}{member}{part}{size}-{self.run}"
                    one = OffsetCommitRequestPartition(part, 3)
                    one.committed_metadata, one.commit_timestamp = about, stamp_ms
                    asked = OffsetCommitRequestTopic(topic, partitions=[one])
                    request = OffsetCommitRequest(group, generation, member)
                    request.topics = [asked]
                    code = _codes(self.peer.ask(request, 1).topics[0].partitions)
                    wanted = [OffsetFetchRequestTopic(topic, [part])]
                    found = self.peer.ask(OffsetFetchRequest(group, wanted), 1)
                    (there,) = found.topics[0].partitions
                    place = "nowhere" if topic == NOWHERE else part
                    case = f"by {member!r} of {generation}, {place}, {size}, {stamp_ms}"
                    stands = there.committed_offset, there.metadata, there.error_code
                    yield case, 1, (*code, stands[0], stands[1], int(stands[2]))

    def _wait_for_coordinator(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        part = OffsetCommitRequestPartition(0, 1)
        asked = [OffsetCommitRequestTopic(self.topic, partitions=[part])]
        request = OffsetCommitRequest(f"first-{self.run}", -1, "", topics=asked)
        while _codes(self.peer.ask(request, 2).topics[0].partitions) != [0]:
            assert time.monotonic() < deadline, "no coordinator"
            self.peer.prepare(FindCoordinatorRequest("first", 0), 0)
            time.sleep(0.1)

    def epochs(self) -> Answers:
        topic = self.create("epochs")
        self.produce(topic, message(b"a"), 0)
        for version in (0, 1):
            for name, part, epoch in (
                (topic, 0, 0), (topic, 0, 5), (topic, 9, 0), (NOWHERE, 0, 0),
            ):  # fmt: skip
                asked = OffsetForLeaderPartition(part, leader_epoch=epoch)
                request = OffsetForLeaderEpochRequest(
                    topics=[OffsetForLeaderTopic(name, [asked])]
                )
                (one,) = self.peer.ask(request, version).topics[0].partitions
                known = "nowhere" if name == NOWHERE else part
                answer = int(one.error_code), one.leader_epoch, one.end_offset
                yield f"{known}, {epoch}", version, answer

    # -- topics ---------------------------------------------------------------

    def topics(self) -> Answers:
        def to(node: int) -> list[CreatableReplicaAssignment]:
            return [CreatableReplicaAssignment(0, [node])]

        def config(key: str) -> list[CreatableTopicConfig]:
            return [CreatableTopicConfig(key, "x")]

        for version in (0, 1):
            made = f"made-{version}-{self.run}"
            for case, name, asked in (
                ("new", made, (1, 1)),
                ("there", made, (1, 1)),
                ("two replicas", "other", (1, 2)),
                ("no replicas", "other", (1, 0)),
                ("no partitions", "other", (0, 1)),
                ("fewer", "other", (-2, 1)),
                ("no name", UNNAMEABLE, (1, 1)),
                ("a long name", "x" * 250, (1, 1)),
                ("assigned", f"{made}-a", (-1, -1, to(1))),
                ("nobody", "other", (-1, -1, to(9))),
                ("both", "other", (1, 1, to(1))),
                ("odd", "other", (1, 1, [], config("no.such"))),
                ("bad", "other", (1, 1, [], config("retention.ms"))),
            ):
                topic = CreatableTopic(name, *asked)
                answer = self.peer.ask(CreateTopicsRequest([topic], 60_000), version)
                yield case, version, _codes(answer.topics)
            twice = [CreatableTopic("other", 1, 1)] * 2
            answer = self.peer.ask(CreateTopicsRequest(twice, 60_000), version)
            yield "twice", version, _codes(answer.topics)
            for case, names in (
                ("gone", [made]), ("gone again", [made]),
                ("gone, twice", [NOWHERE] * 2), ("gone, no name", [UNNAMEABLE]),
                ("gone, none", []),
            ):  # fmt: skip
                request = DeleteTopicsRequest(topic_names=names, timeout_ms=60_000)
                yield case, version, _codes(self.peer.ask(request, version).responses)

    def configs(self) -> Answers:
        stamped = self.create("configs", message_timestamp_type="LogAppendTime")
        for version in (0, 1):
            for case, kind, name, keys in (
                ("default", 2, self.topic, ["cleanup.policy", "max.message.bytes"]),
                ("set", 2, stamped, ["message.timestamp.type"]),
                ("no key", 2, self.topic, ["no.such"]),
                ("no topic", 2, NOWHERE, None),
                ("no name", 2, UNNAMEABLE, None),
                ("no broker", 4, "9", None),
                ("no kind", 7, "x", None),
            ):
                asked = DescribeConfigsResource(kind, name, keys)
                request = DescribeConfigsRequest([asked])
                (one,) = self.peer.ask(request, version).results
                shown = [(c.name, c.value, c.read_only) for c in one.configs]
                about = one.resource_type, one.resource_name.replace(self.run, "")
                yield case, version, (int(one.error_code), *about, shown)

    def metadata(self) -> Answers:
        for version in (0, 1):
            for case, name in (("there", self.topic), ("no name", UNNAMEABLE)):
                request = MetadataRequest([MetadataRequestTopic(name=name)])
                (one,) = self.peer.ask(request, version).topics
                parts = [
                    (int(p.error_code), p.partition_index, p.replica_nodes, p.isr_nodes)
                    for p in one.partitions
                ]
                yield case, version, (int(one.error_code), one.is_internal, parts)
