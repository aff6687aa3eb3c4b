"""What a broker answers to fields with odd values, asked over raw frames.

``table(bootstrap)`` asks for leader epochs and isolation levels that are none, sends
batches with base offsets, starts pages at cursors that nothing was named for, and sets
configurations to numbers and lists in all spellings. The answers come as lines (see
``admin_corners``), so that two brokers' tables can be compared.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from broker.protocol.messages import describe_topic_partitions as pages
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
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
from broker.records.layout import TRANSACTIONAL_BIT
from tests.support.admin_corners import PATIENCE_S, Asker, Case
from tests.support.batches import Record, make_batch
from tests.support.config_requests import (
    BROKER,
    SET,
    TOPIC,
    Change,
    altered,
    described,
)
from tests.support.peer import batch_of
from tests.support.reached import telling

ZSTD: Final = 4
LATEST, EARLIEST, MAX_TIMESTAMP, AT_A_TIME = -1, -2, -3, 1
EPOCHS: Final = (-(2**31), -3, -2, -1, 0, 1, 2**31 - 1)
LEVELS: Final = (-128, -1, 0, 1, 2, 127)


def offsets_of(name: str, level: int, epoch: int, timestamp: int) -> ListOffsetsRequest:
    place = ListOffsetsPartition(0, epoch, timestamp)
    return ListOffsetsRequest(-1, level, [ListOffsetsTopic(name, [place])])


def fetch_of(name: str, id_: bytes, level: int, epoch: int, last: int) -> FetchRequest:
    place = FetchPartition(0, epoch, 0, last, partition_max_bytes=1)
    topics = [FetchTopic(name, id_, [place])]
    return FetchRequest(isolation_level=level, topics=topics)


def epochs(asker: Asker) -> Iterator[Case]:
    topic, id_ = asker.create("epochs")
    batch = make_batch([Record(value=b"v")])
    while asker.peer.produce(topic, batch).error_code:
        time.sleep(0.1)  # a Kafka may not lead yet what it says that it leads
    for name, of in ((topic, id_), ("no-such-topic", b"x" * 16)):
        where = "here" if name == topic else "nowhere"
        for epoch in EPOCHS:
            case = f"{where} {epoch}"
            for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, AT_A_TIME):
                asked = offsets_of(name, 0, epoch, timestamp)
                yield f"offsets {case} at {timestamp}", asked, (4, 7, 11)
            fetched(asker, f"epochs, {case}", fetch_of(name, of, 0, epoch, -1))
            ending = OffsetForLeaderPartition(0, epoch, 0)
            topics = [OffsetForLeaderTopic(name, [ending])]
            yield f"end {case}", OffsetForLeaderEpochRequest(-2, topics), (2, 3, 4)
    for epoch in EPOCHS:
        request = fetch_of(topic, id_, 0, -1, epoch)
        fetched(asker, f"epochs, last fetched {epoch}", request)


def levels(asker: Asker) -> Iterator[Case]:
    """Of a topic with an open transaction behind a record."""
    topic, id_ = asker.create("levels")
    while asker.peer.produce(topic, batch_of(b"v")).error_code:
        time.sleep(0.1)
    producer_id, epoch = begin(asker, f"levels-{asker.run}", topic)
    batch = batch_of(
        b"v", producer=(producer_id, epoch, 0), attributes=TRANSACTIONAL_BIT
    )
    data = [TopicProduceData(topic, id_, [PartitionProduceData(0, batch)])]
    written = ProduceRequest(f"levels-{asker.run}", -1, 30_000, data)
    answer = asker.ask(written, 11)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    for level in LEVELS:
        for timestamp in (LATEST, EARLIEST):
            asked = offsets_of(topic, level, -1, timestamp)
            yield f"offsets {level} at {timestamp}", asked, (2, 5, 11)
        nowhere = offsets_of("no-such-topic", level, -1, LATEST)
        yield f"offsets {level} of nothing", nowhere, (2, 11)
        yield f"offsets {level} of no topic", ListOffsetsRequest(-1, level), (2, 11)
        if level in (0, 1):
            fetched(asker, f"levels, {level}", fetch_of(topic, id_, level, -1, -1))
            ahead = fetch_of(topic, id_, level, -1, 1)
            fetched(asker, f"levels, {level}, last fetched 1", ahead)


def fetched(asker: Asker, case: str, request: FetchRequest) -> None:
    """Note codes and ends, and how many bytes: what batches say of times differs."""
    for version in (9, 12, 13, 17):
        answer = asker.ask(request, version)
        said: Any = answer
        if answer != "closed":
            said = [
                (one.error_code, one.high_watermark, one.last_stable_offset,
                 one.aborted_transactions, len(one.records or b""))
                for topic in answer.responses
                for one in topic.partitions
            ] or int(answer.error_code)  # fmt: skip
        asker.note(f"{case}, fetch", version, said)


def begin(asker: Asker, name: str, topic: str) -> tuple[int, int]:
    """A transaction in partition 0 of a topic; its producer's id and epoch."""
    topics = [AddPartitionsToTxnTopic(topic, [0])]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        asker.peer.ask(FindCoordinatorRequest(name, 1), 3)
        given = asker.peer.ask(InitProducerIdRequest(name, 60_000), 4)
        known = given.producer_id, given.producer_epoch
        if not given.error_code:
            asked = AddPartitionsToTxnRequest([], name, *known, topics)
            found = asker.peer.ask(asked, 3).results_by_topic_v3_and_below
            if not found[0].results_by_partition[0].partition_error_code:
                return known
        assert time.monotonic() < deadline, "no transaction"
        time.sleep(0.1)


def bases(asker: Asker) -> Iterator[Case]:
    """A batch's base offset is the broker's to say."""
    topic, id_ = asker.create("bases")
    for base in (0, 1, -1, 5, 2**62, -(2**63)):
        for case, batch in {
            "plain": batch_of(b"v", base_offset=base),
            "packed": batch_of(b"v", base_offset=base, codec=ZSTD),
            "idempotent": batch_of(b"v", base_offset=base, producer=(4_000, 0, 0)),
            "broken": broken(batch_of(b"v", base_offset=base)),
            "large": batch_of(bytes(2_000_000), base_offset=base),
            "transactional": batch_of(
                b"v", base_offset=base, producer=(4_000, 0, 0), attributes=0x10
            ),
            "of control": batch_of(
                b"v", base_offset=base, producer=(4_000, 0, 0), attributes=0x20
            ),
            "two": batch_of(b"v", base_offset=base) + batch_of(b"v"),
            "cut": batch_of(b"v", base_offset=base)[:-1],
            "of no record": batch_of(base_offset=base),
        }.items():
            if base == 0 and case in ("plain", "packed", "idempotent"):
                continue
            data = [TopicProduceData(topic, id_, [PartitionProduceData(0, batch)])]
            asked = ProduceRequest(None, -1, 30_000, data)
            for version in (3, 8, 11):
                produced(asker, f"bases, {case} {base}", asked, version)
    yield from ()


def produced(asker: Asker, case: str, request: ProduceRequest, version: int) -> None:
    """Note what is said but for the sentence, which is each broker's own."""
    answer = asker.ask(request, version)
    if answer != "closed":
        (topic,) = answer.responses
        for one in topic.partition_responses:
            one.error_message = None
    asker.note(case, version, answer)


def broken(batch: bytearray) -> bytearray:
    batch[-2] ^= 1
    return batch


def cursors(asker: Asker) -> Iterator[Case]:
    names = {
        letter: asker.create(f"{letter}-{asker.run}", 2)[0] for letter in ("b", "d")
    }
    first, last = names["b"], names["d"]

    def asked(
        topics: tuple[str, ...], at: tuple[str, int] | None, limit: int = 2_000
    ) -> pages.DescribeTopicPartitionsRequest:
        return pages.DescribeTopicPartitionsRequest(
            [pages.TopicRequest(name) for name in topics],
            limit,
            None if at is None else pages.Cursor(*at),
        )

    both = (first, last)
    between, behind = f"c-{asker.run}", f"e-{asker.run}"
    for case, at in {
        "none": None,
        "before": (f"a-{asker.run}", 0),
        "before, far": (f"a-{asker.run}", 7),
        "at the first": (first, 0),
        "within the first": (first, 1),
        "behind the first": (first, 2),
        "far behind the first": (first, 9),
        "below the first": (first, -1),
        "far below the first": (first, -(2**31)),
        "between": (between, 0),
        "between, within": (between, 1),
        "between, below": (between, -1),
        "behind the last": (last, 2),
        "behind": (behind, 0),
        "behind, below": (behind, -1),
        "nameless": ("", 0),
        "no name": ("a b", 0),
    }.items():
        for limit in (2_000, 1, 2, 3, 0, -1):
            yield f"{case}, {limit}", asked(both, at, limit), (0,)
        yield f"{case}, one", asked((last,), at), (0,)
        yield f"{case}, unknown beside", asked((*both, between), at), (0,)
        yield f"{case}, unknown beside, 2", asked((*both, between), at, 2), (0,)
        yield f"{case}, unknown alone", asked((between,), at), (0,)
        yield f"{case}, twice", asked((*both, first), at), (0,)
    yield "unnameable", asked(("a b", first), None), (0,)
    yield "nameless", asked(("", first), None), (0,)


NUMBERS: Final = (
    "5", "+5", "-5", "--5", "+-5", "+", "-", "", " ", " 5 ", "\t5\n", "\x005\x1f",
    "\xa05", "\u20035", "\u20285", "5 5", "5_0", "1,000", "0x10", "0X10", "010",
    "0b1", "0o7", "1e3", "1E3", "5.0", "5.", ".5", ".", "0.5", "+.5", "1e", "5L",
    "5l", "5d", "5D", "5f", "5F", "0.5f", "NaN", "nan", "+NaN", "-NaN", "Infinity",
    "inf", "-Infinity", "1e400", "1e-400", "0x1p-1", "0x.8p0", "0x1", "0x1.8P-1d",
    "-0", "-0.0", "0" * 40 + "5", "0" * 40, "2147483647", "2147483648",
    "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "1" + "0" * 40,
    "\u0665", "\uff15", "\u0966\u096b", "\U0001d7ef", "\u00b2", "\u2155", "\u2166",
    "\uff0b\uff15", "\u22125", "0.\u0665", "5\u0665", "\u0665.5", "true",
)  # fmt: skip
BOOLEANS: Final = (
    "true", "TRUE", "True", "tRuE", " true ", "\xa0true", "\x00false\t", "false",
    "fal\u017fe", "FAL\u017fE", "yes", "no", "1", "0", "on", "t", "", " ", "true,false",
    "tr ue", "\u0442rue",
)  # fmt: skip
LISTS: Final = (
    "delete", " delete ", "\xa0delete", "delete,compact", "delete , compact",
    "delete\t,\n compact", "delete\xa0,compact", "delete\x00,compact",
    "delete\x1c,compact", "delete\x0b,\x0ccompact", "delete,", ",delete", ",", ",,",
    "delete,,compact", "", " ", "DELETE", "Delete", "delete,delete",
    "delete;compact", "[delete]", "delete compact", "none",
)  # fmt: skip
REPLICAS: Final = (
    "*", " * ", "*,*", "*,1:1", "1:1", "1:1,2:2", "1:1, 2:2", "01:1", "+1:1", "-1:1",
    "1:", ":1", "1", "1:1:1", "1 :1", "1: 1", "\u0661:1", "99999999999:1", "", ",",
    "1:1,", "none", "a:b",
)  # fmt: skip
TEXTS: Final = (
    "producer", " producer ", "Producer", "gzip", "GZIP", "", " ", "\xa0gzip",
    "\x00gzip\x00", "gzip,lz4", "none",
)  # fmt: skip
KEYS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("segment.index.bytes", NUMBERS),
    ("min.insync.replicas", NUMBERS),
    ("retention.bytes", NUMBERS),
    ("file.delete.delay.ms", NUMBERS),
    ("min.cleanable.dirty.ratio", NUMBERS),
    ("preallocate", BOOLEANS),
    ("cleanup.policy", LISTS),
    ("leader.replication.throttled.replicas", REPLICAS),
    ("compression.type", TEXTS),
)
BROKERS_KEYS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("max.connections.per.ip", NUMBERS),
    ("log.retention.bytes", NUMBERS),
    ("log.cleaner.min.cleanable.ratio", NUMBERS),
    ("log.preallocate", BOOLEANS),
    ("log.cleanup.policy", LISTS),
)


def spellings(asker: Asker) -> Iterator[Case]:
    topic, _ = asker.create("spellings")
    for key, texts in KEYS:
        for text in texts:
            spelled(asker, TOPIC, topic, (key, SET, text))
    for key, texts in BROKERS_KEYS:
        for text in texts:
            spelled(asker, BROKER, "", (key, SET, text))
    yield from ()


def spelled(asker: Asker, kind: int, name: str, change: Change) -> None:
    """Note whether a change would be taken; the sentence has the value as Java says."""
    answer = asker.ask(altered(kind, name, change, only_asked=True), 1)
    asker.note(f"{kind} {change[0]} {change[2]!a}", 1, answer.responses[0].error_code)


KEPT: Final = (
    ("segment.index.bytes", " 5 "), ("segment.index.bytes", "+05"),
    ("segment.index.bytes", "\uff15"), ("segment.index.bytes", "\x005\t"),
    ("min.cleanable.dirty.ratio", " .5f "), ("min.cleanable.dirty.ratio", "0x.8p0"),
    ("min.cleanable.dirty.ratio", "1e-1"), ("min.cleanable.dirty.ratio", "NaN"),
    ("preallocate", " TRUE "), ("cleanup.policy", " delete , compact "),
    ("min.cleanable.dirty.ratio", "0.00012"),
    ("min.cleanable.dirty.ratio", "1"), ("min.cleanable.dirty.ratio", "1e-400"),
    ("min.cleanable.dirty.ratio", "-0"), ("retention.bytes", "-0"),
    ("min.cleanable.dirty.ratio", "0.1234567890123456789"),
    ("compression.type", " gzip "),
)  # fmt: skip


def kept(asker: Asker) -> Iterator[Case]:
    """How what was taken is told again."""
    topic, _ = asker.create("kept")
    for key, text in KEPT:
        case = f"{key} {text!a}"
        yield case, altered(TOPIC, topic, (key, SET, text)), (1,)
        time.sleep(asker.settle_s)
        yield f"{case}, told", described(TOPIC, topic, key), (4,)


APIS = (epochs, levels, bases, cursors, spellings, kept)


@telling
def table(bootstrap: str, settle_s: float = 0.0) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``."""
    with Asker(bootstrap, settle_s) as asker:
        for api in APIS:
            asker.play(api.__name__, api(asker))
        return asker.table()
