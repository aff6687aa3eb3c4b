"""What a broker answers around what stands in a transaction, asked over raw frames.

As ``transaction_corners``, whose stories these go on with: records and offsets of a
transaction, who may read them when, markers that an operator writes, and what operators
are told. ``table(bootstrap)`` tells all of them.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from broker.protocol.messages import describe_producers
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.records.batch import read_header
from broker.records.layout import TRANSACTIONAL_BIT
from tests.support.admin_corners import PATIENCE_S, Case, plain
from tests.support.peer import batch_of
from tests.support.reached import telling
from tests.support.transaction_corners import (
    FUTURE,
    NEW,
    NOWHERE,
    STALE,
    Producer,
    Teller,
    adding,
    ending,
    ends,
    groups,
    initializing,
    interrupting,
    partitions,
)

IMPLICIT_SINCE: Final = 12
BY_ID_SINCE: Final = 13
PRODUCES: Final = range(3, 14)
FETCHES: Final = range(4, 19)
ENDS_BY_VERSION: Final = {True: 5, False: 3}
"""How a transaction is ended that began in the new way, or in the old."""

Topic = tuple[str, bytes]


def written(
    topic: Topic,
    one: Producer,
    sequence: int = 0,
    *,
    partition: int = 0,
    more: int = 0,
    attributes: int = TRANSACTIONAL_BIT,
    **other: Any,
) -> ProduceRequest:
    """A batch of one record by a producer; ``more`` than its epoch."""
    by = one.producer_id, one.epoch + more, sequence
    by = other.get("by", by)
    batch = batch_of(b"v", producer=by, attributes=attributes)
    data = [TopicProduceData(*topic, [PartitionProduceData(partition, batch)])]
    return ProduceRequest(other.get("name", one.id), -1, 30_000, data)


def produced(teller: Teller, case: str, request: ProduceRequest, version: int) -> None:
    """Note what is said but for times, and the sentence, which is each broker's own."""
    answer = teller.settled(request, version)
    if answer != "closed":
        for topic in answer.responses:
            for one in topic.partition_responses:
                one.error_message = None
                one.log_append_time_ms = min(one.log_append_time_ms, 0)
    teller.note(case, version, answer)


def read(teller: Teller, case: str, topic: Topic, partition: int = 0) -> None:
    """Note what who reads finds, at both levels and from each offset of three."""
    for version in FETCHES:
        for level in (0, 1):
            for offset in range(3):
                found = fetched(teller, version, topic, partition, level, offset)
                place = f"level {level} from {offset}"
                teller.note(f"{case}, read {place}", version, found)


def fetched(
    teller: Teller, version: int, topic: Topic, partition: int, level: int, offset: int
) -> Any:
    place = FetchPartition(partition, -1, offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(*topic, [place])]
    asked = FetchRequest(isolation_level=level, max_bytes=1 << 20, topics=topics)
    (one,) = teller.ask(asked, version).responses[0].partitions
    records, bases = memoryview(one.records or b""), []
    while records:
        header = read_header(records)
        bases.append((header.base_offset, header.attributes))
        records = records[header.size :]
    aborted = one.aborted_transactions
    if aborted is not None:
        aborted = [(teller.names[a.producer_id], a.first_offset) for a in aborted]
    ends_ = one.high_watermark, one.last_stable_offset, one.log_start_offset
    return int(one.error_code), *ends_, aborted, bases


def stable(teller: Teller, topic: Topic, partition: int = 0) -> None:
    """Wait until the markers of what ended stand in a partition."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        _, high, last, *_ = fetched(teller, 12, topic, partition, 0, 0)
        if high == last:
            return
        assert time.monotonic() < deadline, "no marker"
        time.sleep(0.02)


def led(teller: Teller, name: str) -> Topic:
    """A new topic of two partitions, of which each is served."""
    topic = teller.create(name, 2)
    deadline = time.monotonic() + PATIENCE_S
    while any(fetched(teller, 12, topic, part, 0, 0)[0] for part in (0, 1)):
        assert time.monotonic() < deadline, "not led"
        time.sleep(0.02)
    return topic


def records(teller: Teller) -> Iterator[Case]:
    for version in PRODUCES:
        for commit in (True, False):
            topic = led(teller, f"records-{version}-{commit}")
            _life(teller, version, topic, commit)
    yield from ()


def _life(teller: Teller, version: int, topic: Topic, commit: bool) -> None:
    is_new = version >= IMPLICIT_SINCE and teller.level == NEW
    one = teller.producer("writes") if is_new else teller.begun("writes", topic[0])
    teller.stands(topic[0], "topic")
    word = "commit" if commit else "abort"

    def tell(case: str, request: ProduceRequest) -> None:
        produced(teller, f"records, {word}, {case}", request, version)

    far = one.producer_id + 1_000_000, 0, 0
    if is_new:
        tell("not the first", written(topic, one, 5))
    tell("stale epoch", written(topic, one, more=STALE))
    tell("future epoch", written(topic, one, more=FUTURE))
    tell("another producer", written(topic, one, by=far))
    tell("no id", written(topic, one, name=None))
    tell("another id", written(topic, one, name=f"nobody-{teller.run}"))
    tell("a plain batch", written(topic, one, attributes=0, by=(-1, -1, -1)))
    if not is_new:
        tell("not added", written(topic, one, partition=1))
    tell("no partition", written(topic, one, partition=9))
    tell("first", written(topic, one))
    tell("first again", written(topic, one))
    tell("a gap", written(topic, one, 7))
    tell("second", written(topic, one, 1))
    if is_new:
        tell("another partition", written(topic, one, partition=1))
    if version in (3, 12):
        read(teller, f"records, {word}, open", topic)
    answer = teller.settled(ending(one, commit), ENDS_BY_VERSION[is_new])
    assert answer.error_code == 0, answer
    before = Producer(*one.known)
    teller.take(one, answer)
    stable(teller, topic)
    if version in (3, 12):
        read(teller, f"records, {word}, ended", topic)
    if not is_new:
        tell("ended, not begun", written(topic, one, 2))
        return
    tell("ended, in the old epoch", written(topic, before, 2))
    tell("ended, going on", written(topic, one, 2))
    tell("ended, anew", written(topic, one))
    teller.settled(ending(one, commit=False), 5)


def committing(
    known: tuple[str, int, int],
    group: str,
    *asked: tuple[str, int],
    about: str | None = "m",
    member: tuple[Any, ...] = (),
) -> TxnOffsetCommitRequest:
    """Offset 5 of each partition; ``member`` is generation, id and instance."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for name, index in asked:
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name))
        topic.partitions.append(TxnOffsetCommitRequestPartition(index, 5, 0, about))
    return TxnOffsetCommitRequest(
        known[0], group, *known[1:], *(member or (-1, "", None)), [*topics.values()]
    )


def offsets(teller: Teller) -> Iterator[Case]:
    topic, _ = teller.create("offsets", 2)
    # at level 1 a Kafka takes what 5 commits in no transaction at all
    for version in range(6 if teller.level == NEW else 5):
        for commit in (True, False):
            _commits(teller, topic, version, commit)
    yield from ()


def _commits(teller: Teller, topic: str, version: int, commit: bool) -> None:
    one = teller.producer("commits")
    word = "commit" if commit else "abort"
    group = f"g-{version}-{commit}-{teller.run}"
    teller.stands(group, "group")
    here = topic, 0

    def tell(case: str, request: TxnOffsetCommitRequest) -> None:
        teller.tell(f"offsets, {word}, {case}", request, version)

    is_new = version >= 5 and teller.level == NEW
    if not is_new:
        tell("not begun", committing(one.known, group, here))
        asked = AddOffsetsToTxnRequest(*one.known, group)
        assert teller.settled(asked, 3).error_code == 0
    for case, known in one.mistaken(teller.run).items():
        tell(case, committing(known, group, here))
    tell("nameless", committing(one.known, "", here))
    tell("no topic", committing(one.known, group, (NOWHERE, 0)))
    tell("no partition", committing(one.known, group, (topic, 9)))
    tell("one, and none", committing(one.known, group, here, (topic, 9)))
    tell("nothing", committing(one.known, group))
    tell("long", committing(one.known, group, here, about="m" * 4097))
    if version >= 3:
        for case, member in {
            "a stranger": (-1, "x", None),
            "a stranger's generation": (1, "x", None),
            "nobody's generation": (1, "", None),
            "an instance": (-1, "", "i"),
            "a stranger's instance": (1, "x", "i"),
        }.items():
            tell(case, committing(one.known, group, here, member=member))
    tell("right", committing(one.known, group, here))
    tell("again, nothing said", committing(one.known, group, here, about=None))
    committed(teller, f"offsets, {word}, open", group, topic)
    answer = teller.settled(ending(one, commit), ENDS_BY_VERSION[is_new])
    assert answer.error_code == 0, answer
    settle(teller, group, topic)
    committed(teller, f"offsets, {word}, ended", group, topic)
    if not is_new:
        tell("after the end", committing(one.known, group, here))


def _of_group(group: str, topic: str, is_stable: bool) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopic(topic, [0, 1])]
    return OffsetFetchRequest(group, asked, require_stable=is_stable)


def committed(teller: Teller, case: str, group: str, topic: str) -> None:
    """Note what the group is given meanwhile."""
    for version in range(1, 8):
        asked = _of_group(group, topic, is_stable=False)
        teller.note(f"{case}, fetched", version, teller.ask(asked, version))
    asked = _of_group(group, topic, is_stable=True)
    teller.note(f"{case}, fetched if stable", 7, teller.ask(asked, 7))


def settle(teller: Teller, group: str, topic: str) -> None:
    """Wait until a group has no offset pending."""
    deadline = time.monotonic() + PATIENCE_S
    while "error_code=88" in repr(
        teller.ask(_of_group(group, topic, is_stable=True), 7)
    ):
        assert time.monotonic() < deadline, "pending for ever"
        time.sleep(0.02)


def markers(teller: Teller) -> Iterator[Case]:
    """What an operator writes who ends a transaction that hangs."""
    for version in (1, 2):
        for commit in (True, False):
            topic = led(teller, f"markers-{version}-{commit}")
            one = teller.begun("hangs", topic[0])
            teller.stands(topic[0], "topic")
            assert "error" not in repr(plain(teller.settled(written(topic, one), 9)))
            _marked(teller, version, topic[0], one, commit)
            stable(teller, topic)
            read(teller, f"markers, {commit}", topic)
            _described(teller, f"markers, {commit}, ended", topic[0], 0)
    yield from ()


def _marked(
    teller: Teller, version: int, topic: str, one: Producer, commit: bool
) -> None:
    here = [WritableTxnMarkerTopic(topic, [0])]

    def tell(case: str, *asked: WritableTxnMarker) -> None:
        request = WriteTxnMarkersRequest(list(asked))
        teller.tell(f"markers, {commit}, {case}", request, version)

    def of(
        topics: list[WritableTxnMarkerTopic], more: int = 0, epoch: int = 0
    ) -> WritableTxnMarker:
        known = one.producer_id, one.epoch + more
        return WritableTxnMarker(*known, commit, topics, epoch)

    tell("none")
    tell("no topics", of([]))
    tell("no partitions", of([WritableTxnMarkerTopic(topic, [])]))
    tell("no topic", of([WritableTxnMarkerTopic(NOWHERE, [0])]))
    tell("no partition", of([WritableTxnMarkerTopic(topic, [9])]))
    tell("one of nothing", of([WritableTxnMarkerTopic(topic, [1])]))
    tell("stale epoch", of(here, STALE))
    tell("right", of(here))
    tell("right, again", of(here))
    tell("two", of(here), of([WritableTxnMarkerTopic(topic, [1])]))


def _described(teller: Teller, case: str, topic: str, *parts: int) -> None:
    """Note the producers of partitions, without their times."""
    asked = describe_producers.TopicRequest(topic, list(parts))
    answer = teller.ask(describe_producers.DescribeProducersRequest([asked]), 0)
    for found in answer.topics:
        for part in found.partitions:
            for one in part.active_producers:
                one.last_timestamp, one.coordinator_epoch = -1, 0
    teller.note(f"{case}, producers", 0, answer)


def operators(teller: Teller) -> Iterator[Case]:
    topic = led(teller, "operators")
    for is_new in (teller.level == NEW, False):
        one = teller.producer("seen")
        teller.stands(topic[0], "topic")
        word = "new" if is_new else "old"
        _told(teller, f"operators, {word}, fresh", one)
        if not is_new:
            teller.settled(adding(3, one.known, (topic[0], [0, 1])), 3)
            _told(teller, f"operators, {word}, begun", one)
        for part in (0, 1):
            asked = written(topic, one, partition=part)
            teller.settled(asked, 12 if is_new else 9)
        _told(teller, f"operators, {word}, written", one)
        if is_new:
            _described(teller, f"operators, {word}", topic[0], 0, 1)
        group = AddOffsetsToTxnRequest(*one.known, "g")
        assert teller.settled(group, 3).error_code == 0
        answer = teller.settled(ending(one, commit=is_new), ENDS_BY_VERSION[is_new])
        assert answer.error_code == 0
        for part in (0, 1):
            stable(teller, topic, part)
        _finished(teller, one)
        _told(teller, f"operators, {word}, ended", one)
    _described(teller, "operators, odd", topic[0], 9, -1)
    _described(teller, "operators, nowhere", NOWHERE, 0)
    _described(teller, "operators, unnameable", "a b", 0)
    _described(teller, "operators, no partitions", topic[0])
    for case, names in {
        "nobody": [f"nobody-{teller.run}"], "nameless": [""], "none": [],
    }.items():  # fmt: skip
        asked = DescribeTransactionsRequest(names)
        teller.tell(f"operators, described, {case}", asked, 0)
    yield from ()


def _finished(teller: Teller, one: Producer) -> None:
    """Wait until the coordinator has noted that all markers are written."""
    deadline = time.monotonic() + PATIENCE_S
    while "Prepare" in repr(teller.ask(DescribeTransactionsRequest([one.id]), 0)):
        assert time.monotonic() < deadline, "never finished"
        time.sleep(0.02)


def _told(teller: Teller, case: str, one: Producer) -> None:
    """Note how a transaction is described, and which lists have it."""
    answer = teller.ask(DescribeTransactionsRequest([one.id]), 0)
    for state in answer.transaction_states:
        state.transaction_start_time_ms = min(state.transaction_start_time_ms, 0)
    teller.note(f"{case}, described", 0, answer)
    for name, (since, filters) in {
        "all": (0, {}),
        "ongoing": (0, {"state_filters": ["Ongoing"]}),
        "ended": (0, {"state_filters": ["CompleteCommit", "CompleteAbort"]}),
        "empty": (0, {"state_filters": ["Empty"]}),
        "odd states": (0, {"state_filters": ["ongoing", "Dead", "", "x"]}),
        "its producer": (0, {"producer_id_filters": [one.producer_id]}),
        "another producer": (0, {"producer_id_filters": [-1, 1 << 60]}),
        "long ago": (1, {"duration_filter": 1 << 40}),
        "just now": (1, {"duration_filter": 0}),
        "odd time": (1, {"duration_filter": -7}),
        "its name": (2, {"transactional_id_pattern": one.id}),
        "names like its": (2, {"transactional_id_pattern": f"s[de]en-.*{teller.run}"}),
        "another name": (2, {"transactional_id_pattern": "seen"}),
        "no name": (2, {"transactional_id_pattern": ""}),
        "no pattern": (2, {"transactional_id_pattern": "("}),
    }.items():
        for version in range(since, 3):
            found = teller.ask(ListTransactionsRequest(**filters), version)
            found.transaction_states = [
                state
                for state in found.transaction_states
                if state.transactional_id == one.id
            ]
            teller.note(f"{case}, listed, {name}", version, found)


STORIES: Final = (
    initializing, interrupting, partitions, groups, ends,
    records, offsets, markers, operators,
)  # fmt: skip


@telling
def table(bootstrap: str, level: int = NEW, settle_s: float = 0.0) -> list[str]:
    """What a broker answers, as sorted lines ``case   [versions]: answer``; with
    ``transaction.version`` at a level, which is 2 again afterwards."""
    with Teller(bootstrap, level, settle_s) as teller:
        teller.levelled(level)
        try:
            for story in STORIES:
                teller.play(story.__name__, story(teller))
        finally:
            teller.levelled(NEW)
        return teller.table()
