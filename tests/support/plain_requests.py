"""What a broker answers to plain requests, each API once in each of its versions.

``table(bootstrap)`` asks as a client would who does nothing special: of what is there,
and of what is not; and with names of groups and ids that no client should have. The
answers come as lines (see ``admin_corners``), so that two brokers' tables can be
compared. What only Kafka before 4 served, ``old_corners`` asks.
"""

import struct
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import FIRST_FLEXIBLE, ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.admin_corners import PATIENCE_S, Asker, Case
from tests.support.batches import Record, make_batch
from tests.support.peer import Peer, batch_of
from tests.support.wire import frame_of

FIRST_OF_KAFKA: Final = {
    ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.LIST_OFFSETS: 1, ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1, ApiKey.CREATE_TOPICS: 2, ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2, ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1, ApiKey.CREATE_ACLS: 1, ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1, ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1, ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1, ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
}  # fmt: skip
"""The first version that Kafka 4 serves, where it is not 0."""
LAST_BEFORE_FLEXIBLE: Final = {
    key: max(first - 1, FIRST_OF_KAFKA.get(key, 0))
    for key, first in FIRST_FLEXIBLE.items()
}
NOWHERE, UNNAMEABLE, LONG = "no-such-topic", "a b", "x" * 300
NO_ID: Final = b"no such topic id"
SERVED: Final = Registry.discover().by_key
SHOWN: Final = ("metadata.version", "transaction.version")
"""The features that are here; the others are told in differences.md."""
NOT_HERE: Final = {
    17, 36, 48, 49, 50, 51,  # security
    69, *range(76, 80), *range(88, 93),  # new groups
    *range(83, 88),  # brokers' own: the state of share groups
    80, 81,  # voters of a quorum
}  # fmt: skip
"""What a Kafka 4.3.1 lists beside what is served here; told in differences.md."""


def advertised(asker: Asker) -> Iterator[Case]:
    for version in range(5):
        found = asker.ask(ApiVersionsRequest("tests", "1"), version)
        ranges = {one.api_key: one.max_version for one in found.api_keys}
        for key in SERVED:
            asker.note(f"listed up to, {ApiKey(key).name}", version, ranges.get(key))
        new = set(ranges) - set(SERVED) - NOT_HERE
        asker.note("listed, and told nowhere", version, sorted(new))
        for kind in (found.supported_features, found.finalized_features):
            shown = [one for one in kind if one.name in SHOWN]
            word = "supported" if kind is found.supported_features else "finalized"
            asker.note(f"features, {word}", version, shown)
        for name, of in (("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")):
            answer = asker.ask(ApiVersionsRequest(name, of), version)
            code = int(answer.error_code), bool(answer.api_keys)
            asker.note(f"software {name!r} {of!r}", version, code)
    for version in (5, 99, 32767, -1):
        asker.peer.send(struct.pack(">ihhih", 12, 18, version, 7, -1), bytes(2))
        answer = bytes(asker.peer.receive())
        asker.note("not a version", version, struct.unpack(">ihihhh", answer[:16]))
    yield from ()


def metadata(asker: Asker) -> Iterator[Case]:
    topic, id_ = asker.create("metadata", 2)

    def of(*names: str, create: bool = False, **more: Any) -> MetadataRequest:
        asked = [MetadataRequestTopic(name=name) for name in names]
        return MetadataRequest(asked, create, **more)

    for case, request, since in (
        ("one", of(topic), 0),
        ("one twice", of(topic, topic), 0),
        ("no topic", of(NOWHERE), 4),
        ("unnameable", of(UNNAMEABLE), 4),
        ("unnameable, to be made", of(UNNAMEABLE, create=True), 0),
        ("long, to be made", of(LONG, create=True), 0),
        ("nameless", of(""), 4),
        ("one, and none", of(topic, NOWHERE, UNNAMEABLE), 4),
        ("none", of(), 1),
        ("operations", of(topic, include_topic_authorized_operations=True), 8),
        ("by id", MetadataRequest([MetadataRequestTopic(id_, None)], False), 12),
        ("by no id", MetadataRequest([MetadataRequestTopic(NO_ID, None)], False), 12),
        ("by both", MetadataRequest([MetadataRequestTopic(id_, topic)], False), 12),
    ):
        for version in range(since, 14):
            told(asker, f"metadata, {case}", request, version)
    for version in range(14):
        request = MetadataRequest(None if version else [], False)
        answer = asker.ask(request, version)
        answer.topics = [one for one in answer.topics if one.name == topic]
        noted(asker, "metadata, all", version, answer)
    for operations in (True, False):
        for version in (8, 9, 10):
            request = of(include_cluster_authorized_operations=operations)
            told(
                asker, f"metadata, cluster's operations {operations}", request, version
            )
    for version in range(4):
        request = of(f"made-{version}-{asker.run}")
        deadline = time.monotonic() + PATIENCE_S
        while (answer := asker.ask(request, version)).topics[0].error_code in (3, 5):
            assert time.monotonic() < deadline, "never made"
            time.sleep(0.05)
        answer.topics[0].name = answer.topics[0].name.replace(f"-{version}-", "-")
        noted(asker, "metadata, made by asking", version, answer)
    yield from ()


def told(asker: Asker, case: str, request: Any, version: int) -> None:
    noted(asker, case, version, asker.ask(request, version))


def noted(asker: Asker, case: str, version: int, answer: Any) -> None:
    """Note an answer of brokers without what each calls itself and its cluster."""
    if answer != "closed":
        if answer.cluster_id:
            answer.cluster_id = "one"
        for one in answer.brokers:
            one.host = "here"
    asker.note(case, version, answer)


def cluster(asker: Asker) -> Iterator[Case]:
    for kind in (1, 2, 3, 0, -1):
        for operations in (True, False):
            for fenced in (True, False):
                asked = DescribeClusterRequest(operations, kind, fenced)
                case = f"cluster, {kind} {operations} {fenced}"
                for version in range(3):
                    told(asker, case, asked, version)
    yield from ()


def produced(asker: Asker) -> Iterator[Case]:
    for version in range(3, 14):
        topic = asker.create(f"plain-{version}")
        batch = make_batch([Record(value=b"v")])
        old = bytearray(batch)
        old[16] = 1

        def of(
            records: Any,
            acks: int = -1,
            part: int = 0,
            topic: tuple[str, bytes] = topic,
            name: str | None = None,
        ) -> ProduceRequest:
            data = [TopicProduceData(*topic, [PartitionProduceData(part, records)])]
            return ProduceRequest(name, acks, 30_000, data)

        while "error_code=6" in repr(asker.ask(of(batch), version)):
            time.sleep(0.1)
        for case, request in {
            "second": of(batch),
            "acks 1": of(batch, 1),
            "acks 2": of(batch, 2),
            "acks -2": of(batch, -2),
            "no partition": of(batch, part=9),
            "negative partition": of(batch, part=-1),
            "no topic": of(batch, topic=(NOWHERE, NO_ID)),
            "unnameable": of(batch, topic=(UNNAMEABLE, NO_ID)),
            "empty": of(b""),
            "magic 1": of(old),
            "cut": of(batch[:-1]),
            "two": of(batch + batch),
            "zstd": of(make_batch([Record(value=b"v")], codec=4)),
            "no topics": ProduceRequest(None, -1, 30_000, []),
            "no partitions": ProduceRequest(
                None, -1, 30_000, [TopicProduceData(*topic, [])]
            ),
            "no time": ProduceRequest(None, -1, -1, of(batch).topic_data),
            "idempotent": of(batch_of(b"v", producer=(5_000, 0, 0))),
            "idempotent, again": of(batch_of(b"v", producer=(5_000, 0, 0))),
            "idempotent, a gap": of(batch_of(b"v", producer=(5_000, 0, 9))),
            "idempotent, next epoch": of(batch_of(b"v", producer=(5_000, 1, 0))),
            "idempotent, old epoch": of(batch_of(b"v", producer=(5_000, 0, 1))),
        }.items():
            answer = asker.ask(request, version)
            if answer != "closed":
                for one in answer.responses:
                    if one.name:
                        one.name = one.name.replace(f"-{version}-", "-")
                    for part in one.partition_responses:
                        part.error_message = None
                        part.log_append_time_ms = min(part.log_append_time_ms, 0)
                        for error in part.record_errors:
                            error.batch_index_error_message = None
            asker.note(f"produced, {case}", version, answer)
    yield from ()


def fetched(asker: Asker) -> Iterator[Case]:
    topic = asker.create("fetched")
    while asker.peer.produce(topic[0], make_batch([Record(value=b"v")])).error_code:
        time.sleep(0.1)
    nowhere = NOWHERE, NO_ID
    for case, of, part, offset, more in (
        ("first", topic, 0, 0, {}),
        ("at the end", topic, 0, 1, {}),
        ("behind the end", topic, 0, 2, {}),
        ("before the start", topic, 0, -1, {}),
        ("far", topic, 0, 2**63 - 1, {}),
        ("no partition", topic, 9, 0, {}),
        ("negative partition", topic, -1, 0, {}),
        ("no topic", nowhere, 0, 0, {}),
        ("unnameable", (UNNAMEABLE, NO_ID), 0, 0, {}),
        ("no bytes", topic, 0, 0, {"max_bytes": 0}),
        ("negative time", topic, 0, 0, {"max_wait_ms": -1}),
        ("from a rack", topic, 0, 0, {"rack_id": "r"}),
        ("committed", topic, 0, 0, {"isolation_level": 1}),
    ):
        place = FetchPartition(part, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(*of, [place])], **more)
        for version in range(4, 19):
            answer = asker.ask(request, version)
            if answer != "closed":
                for one in answer.responses:
                    for found in one.partitions:
                        found.records = len(found.records or b"")
                        if found.aborted_transactions is None:
                            found.aborted_transactions = []
            asker.note(f"fetched, {case}", version, answer)
    for version in range(4, 19):
        asker.note("fetched, nothing", version, asker.ask(FetchRequest(), version))
    yield from ()


def offsets(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("offsets")
    batch = make_batch([Record(value=b"v", timestamp=1_000), Record(timestamp=5_000)])
    empty, _ = asker.create("empty")
    while asker.peer.produce(topic, batch).error_code:
        time.sleep(0.1)
    while asker.peer.fetch(empty, 0).error_code:
        time.sleep(0.1)
    for word, name in {
        "here": topic, "nothing in it": empty, "nowhere": NOWHERE,
        "unnameable": UNNAMEABLE,
    }.items():  # fmt: skip
        for stamp in (0, 1_000, 1_001, 5_000, 5_001, -1, -2, -3, -4, -5, -6, -7):
            for part in (0, 9) if stamp == -1 else (0,):
                place = ListOffsetsPartition(part, -1, stamp)
                asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [place])])
                yield f"{word} {part} at {stamp}", asked, range(1, 12)
    place = ListOffsetsPartition(0, -1, -1)
    twice = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [place, place])])
    yield "twice", twice, range(1, 12)
    yield "none", ListOffsetsRequest(-1, 0, []), range(1, 12)


def hostile(asker: Asker) -> Iterator[Case]:
    """Frames that are no request, one a connection: is it closed, or is there more?"""
    for key, served in SERVED.items():
        module = import_module(f"broker.protocol.messages.{served.key.name.lower()}")
        words = served.key.name.title().replace("_", "")
        request = getattr(module, f"{words}Request")()
        for version in (served.last_version, LAST_BEFORE_FLEXIBLE.get(key, 0)):
            if version < FIRST_OF_KAFKA.get(key, 0) or (key == 22 and version == 6):
                continue
            whole = frame_of(request, version)[4:]
            sent(asker, f"{words} without its last byte", version, whole[:-1])
            sent(asker, f"{words} without a body", version, whole[:15])
            sent(asker, f"{words} of ones", version, whole[:15] + b"\xff" * 40)
        for version in (-1, served.last_version + 1, 32_767):
            if key != ApiKey.API_VERSIONS:
                head = struct.pack(">hhih", key, version, 1, -1)
                sent(asker, f"{words}, no such version", version, head + bytes(8))
    for asked, version in (
        (MetadataRequest([]), 1), (MetadataRequest([]), 13),
        (ApiVersionsRequest("a", "1"), 2), (ApiVersionsRequest("a", "1"), 4),
        (DescribeClusterRequest(), 2),
    ):  # fmt: skip
        whole = frame_of(asked, version)[4:] + b"\0\1\2"
        sent(asker, f"{type(asked).__name__} and more", version, whole)
    for key in (-1, 4, 7, 52, 58, 67, 93, 94, 1_000, 32_767):
        sent(asker, f"key {key}", 0, struct.pack(">hhih", key, 0, 1, -1) + bytes(8))
    for length in (0, 1, 7, 8, 9):
        sent(asker, f"{length} zeros", 0, bytes(length))
    yield from ()


def sent(asker: Asker, case: str, version: int, frame: bytes) -> None:
    with Peer(asker.bootstrap, PATIENCE_S) as peer:
        peer.send(struct.pack(">i", len(frame)), frame)
        said = "closed" if peer.is_closed() else "answered"
    asker.note(f"hostile, {case}", version, said)
