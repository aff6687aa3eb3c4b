"""Two requests in one send: the second sees what the first did.

Kafka handles one request of a connection at a time, and clients count on it. The same
pairs can be sent to a real Kafka: ``KAFKA_BOOTSTRAP=host:port pytest`` on this file.
"""

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from broker.protocol.codec import response_decoder
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
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
from broker.records.layout import TRANSACTIONAL_BIT
from tests.support.patience import IDLE_S, Patience, wait_until
from tests.support.peer import Peer, batch_of, produce_request
from tests.support.wire import frame_of

ROUNDS = 20
EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """A real Kafka's address if one is named, else a broker of ours."""
    named = os.environ.get("KAFKA_BOOTSTRAP")
    return named or str(request.getfixturevalue("broker").bootstrap)


@pytest.fixture
def peer(bootstrap: str) -> Iterator[Peer]:
    with Peer(bootstrap) as one:
        yield one


@pytest.fixture
def name(peer: Peer) -> str:
    """A new topic."""
    name = f"pairs-{uuid.uuid4()}"
    peer.create(name)
    # Kafka's metadata and leader need a moment
    wait_until(lambda: peer.produce(name, batch_of(b"first")).error_code == 0)
    return name


def both(peer: Peer, *requests: tuple[Any, int]) -> list[Any]:
    """The responses to requests with their versions, sent at once."""
    peer.send(*[frame_of(request, version) for request, version in requests])
    responses = []
    for request, version in requests:
        key, frame = int(request.API_KEY), peer.receive()
        _, position = decode_response_head(frame, key, version)
        responses.append(response_decoder(key, version)(frame, position))
    return responses


def list_offsets(name: str, timestamp: int) -> tuple[Any, int]:
    asked = ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=timestamp)])
    return ListOffsetsRequest(replica_id=-1, topics=[asked]), 5


def offset_in(response: Any) -> int:
    partition = response.topics[0].partitions[0]
    assert partition.error_code == 0
    return int(partition.offset)


def produce(name: str, acks: int = -1) -> tuple[Any, int]:
    return produce_request(name, bytes(batch_of(b"one")), acks), 9


def test_a_commit_is_seen_by_the_fetch_of_offsets_behind_it(
    peer: Peer, name: str
) -> None:
    group = f"group-{name}"
    patience = Patience()
    while True:  # Kafka makes its topic of offsets when a coordinator is asked for
        peer.ask(FindCoordinatorRequest(group), 1)
        fetch = OffsetFetchRequest(group, [OffsetFetchRequestTopic(name, [0])])
        if peer.ask(fetch, 5).error_code == 0:
            break
        assert patience.lasts()
        time.sleep(0.1)
    for offset in range(1, ROUNDS):
        commit = OffsetCommitRequest(group, topics=[
            OffsetCommitRequestTopic(
                name, partitions=[OffsetCommitRequestPartition(0, offset)]
            )
        ])  # fmt: skip
        _, fetched = both(peer, (commit, 7), (fetch, 5))
        assert fetched.topics[0].partitions[0].committed_offset == offset


def test_a_deletion_is_seen_by_the_question_for_the_start_behind_it(
    peer: Peer, name: str
) -> None:
    for _ in range(ROUNDS):
        peer.produce(name, batch_of(b"more"))
    for offset in range(1, ROUNDS):
        asked = DeleteRecordsTopic(name, [DeleteRecordsPartition(0, offset)])
        delete = DeleteRecordsRequest([asked], 10_000)
        _, listed = both(peer, (delete, 1), list_offsets(name, EARLIEST))
        assert offset_in(listed) == offset


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_produce_is_seen_by_the_question_for_the_end_behind_it(
    peer: Peer, name: str, acks: int
) -> None:
    for end in range(2, ROUNDS):
        _, listed = both(peer, produce(name, acks), list_offsets(name, LATEST))
        assert offset_in(listed) == end


def test_a_produce_that_wants_no_answer_is_seen_too(peer: Peer, name: str) -> None:
    for end in range(2, ROUNDS):
        request, version = produce(name, acks=0)
        peer.send(frame_of(request, version))
        (listed,) = both(peer, list_offsets(name, LATEST))
        assert offset_in(listed) == end


def test_a_produce_is_seen_by_the_fetch_behind_it(peer: Peer, name: str) -> None:
    for offset in range(1, ROUNDS):
        asked = FetchPartition(
            0, fetch_offset=offset, partition_max_bytes=1 << 20
        )  # fmt: skip
        fetch = FetchRequest(
            replica_id=-1,
            max_bytes=1 << 20,
            topics=[FetchTopic(name, partitions=[asked])],
        )
        _, fetched = both(peer, produce(name), (fetch, 11))
        data = fetched.responses[0].partitions[0]
        assert data.high_watermark == offset + 1
        assert len(bytes(data.records)) > 0


def epoch_of(peer: Peer, transactional_id: str) -> InitProducerIdResponse:
    """What InitProducerId gives, once the coordinator is there."""
    patience = Patience()
    while True:  # Kafka makes its topic of transactions when it is asked for
        peer.ask(FindCoordinatorRequest(transactional_id, 1), 1)
        given = peer.ask(InitProducerIdRequest(transactional_id, 60_000), 4)
        if given.error_code == 0:
            return given
        assert patience.lasts()
        time.sleep(0.1)


def test_batches_that_join_a_transaction_stay_in_order_and_come_before_its_end(
    peer: Peer, name: str
) -> None:
    """The first of them has to wait until it is durable that its partition is part."""
    end = 1
    for number in range(ROUNDS):
        transactional_id = f"{name}-{number}"
        given = epoch_of(peer, transactional_id)
        requests: list[tuple[Any, int]] = []
        for sequence in range(4):
            producer = given.producer_id, given.producer_epoch, sequence
            batch = batch_of(b"v", producer=producer, attributes=TRANSACTIONAL_BIT)
            request = produce_request(name, bytes(batch))
            request.transactional_id = transactional_id
            requests.append((request, 12))
        ids = given.producer_id, given.producer_epoch
        requests.append((EndTxnRequest(transactional_id, *ids, committed=True), 5))
        *produced, ended = both(peer, *requests)
        parts = [one.responses[0].partition_responses[0] for one in produced]
        assert [part.error_code for part in parts] == [0] * 4
        assert [part.base_offset for part in parts] == list(range(end, end + 4))
        assert (ended.error_code, ended.producer_epoch) == (0, ids[1] + 1)
        end += 5


def test_a_created_topic_is_in_the_metadata_asked_for_behind_it(peer: Peer) -> None:
    known = 0
    for _ in range(ROUNDS):
        name = f"pairs-{uuid.uuid4()}"
        create = CreateTopicsRequest([CreatableTopic(name, 1, 1)], 10_000)
        asked = MetadataRequest(
            [MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        _, metadata = both(peer, (create, 5), (asked, 8))
        known += metadata.topics[0].error_code == 0
    if "KAFKA_BOOTSTRAP" in os.environ:
        return  # there the metadata follow the controller's log, a moment later
    assert known == ROUNDS


def test_fetches_that_wait_are_answered_one_after_another(
    peer: Peer, name: str
) -> None:
    """A long poll holds up what comes behind it on its connection."""
    asked = FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        replica_id=-1,
        max_wait_ms=int(IDLE_S * 1000),
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(name, partitions=[asked])],
    )
    with Peer(f"{peer.socket.getpeername()[0]}:{peer.socket.getpeername()[1]}") as late:
        peer.send(frame_of(fetch, 11), frame_of(list_offsets(name, LATEST)[0], 5))
        peer.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.receive()
        peer.socket.settimeout(IDLE_S)
        assert late.produce(name, batch_of(b"late")).error_code == 0
        keys = (1, 11), (2, 5)
        answers = []
        for key, version in keys:
            frame = peer.receive()
            _, position = decode_response_head(frame, key, version)
            answers.append(response_decoder(key, version)(frame, position))
        assert offset_in(answers[1]) == 2
