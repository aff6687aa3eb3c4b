"""Names, partitions, ids and offsets that nobody has."""

from pathlib import Path

import pytest

from broker.protocol.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.peer import Peer, batch_of, produce_request
from tests.support.process import BrokerPart

INT32_MAX = 2**31 - 1
STALE_ID = b"\x07" * 16


NAMES = {
    "nothing": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "path": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "250 characters": "x" * 250,
    "a null character": "a\0b",
    "a line break": "a\n",
    "not ASCII": "caf\u00e9",
    "space": "a b",
    "colon": "c:d",
}


def everything_in(directory: Path) -> set[str]:
    tables = directory / "tables"
    return {str(path.name) for path in (*directory.parent.iterdir(), *tables.iterdir())}


@pytest.mark.parametrize("kind", NAMES)
def test_an_invalid_name_is_refused_and_leaves_nothing(
    broker: BrokerPart, peer: Peer, kind: str
) -> None:
    name, invalid = NAMES[kind], ErrorCode.INVALID_TOPIC_EXCEPTION
    (broker.data_dir / "tables").mkdir(exist_ok=True)
    before = everything_in(broker.data_dir)
    created = peer.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7)
    assert created.topics[0].error_code == invalid
    for version in (1, 4, 9, 12):
        asked = MetadataRequest([MetadataRequestTopic(name=name)])
        answer = peer.ask(asked, version)
        assert answer.topics[0].error_code == invalid, version
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert peer.produce(name, batch_of(b"x")).error_code == unknown
    assert peer.fetch(name, 0).error_code == unknown
    topics = peer.ask(MetadataRequest(None), 12).topics
    assert name not in [topic.name for topic in topics]
    assert everything_in(broker.data_dir) == before


def test_the_longest_name_is_a_name(peer: Peer) -> None:
    name = "x" * 249
    peer.create(name)
    assert peer.produce(name, batch_of(b"x")).error_code == 0
    assert peer.values(name) == [b"x"]


def test_names_that_would_be_one_in_metrics_exclude_each_other(peer: Peer) -> None:
    peer.create("metrics.of_a")
    for name in ("metrics_of.a", "metrics.of.a", "metrics_of_a"):
        answer = peer.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        answer = peer.ask(MetadataRequest([MetadataRequestTopic(name=name)]), 4)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    peer.create("Metrics.of_a")  # case makes two


@pytest.mark.parametrize("index", [1, 5, -1, INT32_MAX, -(2**31)])
def test_a_partition_that_is_not_there_is_unknown(
    peer: Peer, topic: str, index: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for name in (topic, "no-such-topic"):
        request = produce_request(name, batch_of(b"x"))
        request.topic_data[0].partition_data[0].index = index
        answer = peer.ask(request, 12).responses[0]
        assert answer.partition_responses[0].error_code == unknown
        asked = FetchRequest(topics=[FetchTopic(name, partitions=[FetchPartition()])])
        asked.topics[0].partitions[0].partition = index
        answer = peer.ask(asked, 12).responses[0]
        assert answer.partitions[0].error_code == unknown
        wanted = ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=-1)])
        answer = peer.ask(ListOffsetsRequest(topics=[wanted]), 5).topics[0]
        assert answer.partitions[0].error_code == unknown
    assert peer.values(topic) == [b"before"]


def codes_by_id(peer: Peer, topic_id: bytes) -> dict[str, int]:
    """What each API says of a topic id."""
    codes = {}
    request = produce_request("", batch_of(b"stale"), topic_id=topic_id)
    answer = peer.ask(request, 13).responses[0]
    codes["produce"] = answer.partition_responses[0].error_code
    asked = FetchTopic(topic_id=topic_id, partitions=[FetchPartition()])
    answer = peer.ask(FetchRequest(topics=[asked]), 17).responses[0]
    codes["fetch"] = answer.partitions[0].error_code
    asked_of = [MetadataRequestTopic(topic_id, None)]
    answer = peer.ask(MetadataRequest(asked_of, False), 12)
    codes["metadata"] = answer.topics[0].error_code
    commit = OffsetCommitRequestTopic("", topic_id, [OffsetCommitRequestPartition(0)])
    answer = peer.ask(OffsetCommitRequest("g-stale", topics=[commit]), 10)
    codes["commit"] = answer.topics[0].partitions[0].error_code
    group = OffsetFetchRequestGroup("g-stale")
    group.topics = [OffsetFetchRequestTopics("", topic_id, [0])]
    answer = peer.ask(OffsetFetchRequest(groups=[group]), 10).groups[0]
    codes["committed"] = answer.topics[0].partitions[0].error_code
    return codes


def test_the_id_of_a_topic_that_is_gone_is_unknown(peer: Peer) -> None:
    old = peer.create("reborn")
    assert peer.produce("reborn", batch_of(b"first life")).error_code == 0
    assert set(codes_by_id(peer, old).values()) == {0}
    gone = DeleteTopicsRequest(topics=[DeleteTopicState("reborn")], timeout_ms=5000)
    assert peer.ask(gone, 6).responses[0].error_code == 0
    new = peer.create("reborn")
    assert new != old
    assert set(codes_by_id(peer, old).values()) == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert set(codes_by_id(peer, STALE_ID).values()) == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert peer.values("reborn") == []


@pytest.mark.parametrize("offset", [-1, -(2**63), 2, 100, 2**63 - 1])
def test_an_offset_outside_the_log_is_out_of_range(
    peer: Peer, topic: str, offset: int
) -> None:
    for version in (4, 12):
        data = peer.fetch(topic, offset, version)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert data.high_watermark == -1  # as Kafka: no offsets beside an error
    assert peer.values(topic) == [b"before"]


@pytest.mark.parametrize("number", [0, -1, -(2**31), INT32_MAX])
def test_limits_of_a_fetch_may_be_anything(peer: Peer, topic: str, number: int) -> None:
    places = [FetchPartition(0, fetch_offset=0, partition_max_bytes=number)]
    request = FetchRequest(
        max_wait_ms=min(number, 300),
        min_bytes=number,
        max_bytes=number,
        topics=[FetchTopic(topic, partitions=places)],
    )
    answer = peer.ask(request, 12)
    assert answer.responses[0].partitions[0].error_code == 0
    assert answer.responses[0].partitions[0].records
