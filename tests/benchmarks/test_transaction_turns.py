"""Nor does a request about thousands of transactions hold the loop for long.

As `test_request_turns` measures; the broker has five thousand transactional ids, one of
them with a transaction over five thousand partitions.
"""

import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.groups.offsets import Committed
from broker.ids import PartitionNumber, ProducerId, TopicNumber
from broker.protocol.messages import (
    describe_producers,
    offset_fetch,
    txn_offset_commit,
)
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.records.layout import TRANSACTIONAL_BIT
from broker.runtime.services import Broker
from broker.transactions.metadata import TransactionMetadata
from broker.transactions.states import TransactionState
from broker.transactions.transaction import Transaction
from tests.benchmarks.thousands import EACH, EMPTY, NAMES, known
from tests.support.rig import batch_of, rig, run
from tests.support.serving import serving
from tests.support.turns import BUDGET_MS, longest_callback_ms

IDS = [f"id-{n}" for n in range(5_000)]
PRODUCERS = 20_000
LARGE = "large"


def open_transactions(broker: Broker) -> None:
    """An open transaction of each id, and a partition that many have written to."""
    keys = frozenset((n, index) for n in range(1, len(NAMES) + 1) for index in EACH)
    for producer, name in enumerate((*IDS, LARGE)):
        metadata = TransactionMetadata(
            ProducerId(producer), 0, TransactionState.ONGOING, 60_000, started_ms=0
        )
        if name == LARGE:
            metadata = metadata._replace(partitions=keys, groups=frozenset({"simple"}))
        hosted = broker.transactions._host(Transaction(name, metadata))
        broker.transactions._find_by_producer(hosted)
    for producer in range(100):
        offsets = {
            (TopicNumber(n), PartitionNumber(i)): Committed(6)
            for n in range(1_000)
            for i in EACH
        }
        broker.groups.offsets._commits.add_pending("all", ProducerId(producer), offsets)
    producers = broker.partitions.named(NAMES[0], 0).log.producers
    for producer in range(PRODUCERS):
        producers.mark(ProducerId(producer), 0, 0)


def committing(
    topics: list[txn_offset_commit.TxnOffsetCommitRequestTopic],
) -> txn_offset_commit.TxnOffsetCommitRequest:
    ids = len(IDS), 0  # the producer of LARGE
    return txn_offset_commit.TxnOffsetCommitRequest(
        LARGE, "simple", *ids, topics=topics
    )


def committed(name: str) -> txn_offset_commit.TxnOffsetCommitRequestTopic:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition
    return txn_offset_commit.TxnOffsetCommitRequestTopic(
        name, [partition(index, 7, committed_metadata="") for index in EACH]
    )


def markers(*topics: WritableTxnMarkerTopic) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest([WritableTxnMarker(70, 0, False, list(topics))])


def added(*topics: AddPartitionsToTxnTopic) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest([], IDS[0], 0, 0, list(topics))


def produced() -> ProduceRequest:
    batch = batch_of(b"v", producer=(0, 0, 0), attributes=TRANSACTIONAL_BIT)
    data = [
        TopicProduceData(
            name, bytes(16), [PartitionProduceData(i, batch) for i in EACH]
        )
        for name in NAMES
    ]
    return ProduceRequest(IDS[0], -1, 1_000, data)


CASES: dict[str, tuple[Any, int]] = {
    "add": (
        added(*(AddPartitionsToTxnTopic(name, list(EACH)) for name in NAMES)),
        3,
    ),
    "add what is not there": (added(AddPartitionsToTxnTopic("t", [*range(EMPTY)])), 3),
    "add topics without partitions": (
        added(*[AddPartitionsToTxnTopic("t")] * EMPTY),
        3,
    ),
    "produce": (produced(), 11),
    "produce and add": (produced(), 12),
    "offsets": (committing([committed(name) for name in NAMES]), 3),
    "fetch stable offsets": (
        offset_fetch.OffsetFetchRequest(
            "all",
            [offset_fetch.OffsetFetchRequestTopic(name, list(EACH)) for name in NAMES],
            require_stable=True,
        ),
        7,
    ),
    "fetch stable offsets of a group again and again": (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup("all", topics=[])] * 5_000,
            require_stable=True,
        ),
        8,
    ),
    "topics without offsets": (
        committing([txn_offset_commit.TxnOffsetCommitRequestTopic("t")] * EMPTY),
        3,
    ),
    "producers": (
        describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(name, list(EACH)) for name in NAMES]
        ),
        0,
    ),
    "topics without producers": (
        describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest("t")] * EMPTY
        ),
        0,
    ),
    "markers": (
        markers(*(WritableTxnMarkerTopic(name, list(EACH)) for name in NAMES)),
        2,
    ),
    "markers for nothing": (markers(*[WritableTxnMarkerTopic("t")] * EMPTY), 2),
    "list": (ListTransactionsRequest(), 2),
    "list by pattern": (ListTransactionsRequest(transactional_id_pattern=".*7"), 2),
    "list by states": (ListTransactionsRequest([f"s{n}" for n in range(EMPTY)]), 2),
    "describe": (DescribeTransactionsRequest([*IDS, LARGE]), 0),
    "describe nothing": (
        DescribeTransactionsRequest([f"no-{n}" for n in range(EMPTY)]),
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_request_about_thousands(name: str, tmp_path: Path) -> None:
    request, version = CASES[name]

    async def scenario() -> None:
        async with rig(tmp_path) as broker, serving((), broker) as server:
            known(broker)
            open_transactions(broker)
            gc.disable()  # a broker's collector looks seldom
            try:
                least = await longest_callback_ms(server, request, version)
            finally:
                gc.enable()
            sys.stdout.write(f"{name}: longest turn {least:.1f} ms\n")
            assert least < BUDGET_MS, f"{name}: {least:.1f} ms in one turn"

    run(scenario)
