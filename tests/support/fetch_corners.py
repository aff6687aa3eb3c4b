"""What a broker answers at the corners of its fetch sessions, asked over raw frames.

``table(bootstrap)`` plays some stories on topics of its own, in a version that names
topics and in one that has their ids. Of each answer there is a line: its error, its
session (``S`` and a number, in the order of appearance; 0: none), and each partition
that is in it, with its error, high watermark, log start and how many batches. So two
brokers' tables can be compared.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.batch import read_header
from tests.support.patience import STUCK_S
from tests.support.peer import Peer, batch_of
from tests.support.reached import telling
from tests.support.wire import frame_of

BY_NAME, BY_ID = 12, 18
BY_ID_SINCE = 13
BYTES_MAX = 1 << 20
FULL, CLOSE = 0, -1
ENDLESS_MS = int(2 * STUCK_S * 1000)
EPOCH_MAX = (1 << 31) - 1

T = TypeVar("T")

Asked = tuple[str, int, int]
"""Topic, partition, offset."""


@telling
def table(bootstrap: str) -> list[str]:
    """What a broker answers, a line for each answer of each story."""
    lines: list[str] = []
    for version in (BY_NAME, BY_ID):
        for story in STORIES:
            with Player(bootstrap, version) as player:
                lines.append(f"{story.__name__} v{version}")
                for line, alike in groupby(story(player)):
                    count = len(list(alike))
                    lines.append(f"  {line}" + (f"  x{count}" if count > 1 else ""))
    return lines


def until(ask: Callable[[], T], is_it: Callable[[T], bool]) -> T:
    """Ask again until it is."""
    deadline = time.monotonic() + STUCK_S
    while time.monotonic() < deadline:
        found = ask()
        if is_it(found):
            return found
    raise AssertionError(f"still {found}")


class Player:
    """One who fetches in a session, and produces meanwhile."""

    def __init__(self, bootstrap: str, version: int) -> None:
        self.bootstrap, self.version = bootstrap, version
        self.peer = Peer(bootstrap, STUCK_S)
        self.suffix = os.urandom(4).hex()
        self.ids: dict[str, bytes] = {}
        self.sessions: dict[int, str] = {0: "0"}
        self.session, self.epoch = 0, 0

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self.fetch(epoch=CLOSE)  # or it takes a slot for a while
        self.peer.socket.close()

    def create(self, name: str, partitions: int = 1) -> None:
        """A topic whose partitions answer."""
        self.ids[name] = self.peer.create(self._full(name), partitions)
        asked = [(name, index, 0) for index in range(partitions)]
        request = self.request(asked, session_id=0, epoch=CLOSE)
        until(
            lambda: self.ask(request).responses,
            lambda topics: (
                not any(one.error_code for topic in topics for one in topic.partitions)
            ),
        )

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[self._full(name)], timeout_ms=30_000)
        assert self.peer.ask(request, 5).responses[0].error_code == 0

    def produce(self, name: str, partition: int = 0, peer: Peer | None = None) -> None:
        data = PartitionProduceData(partition, batch_of(b"x"))
        topic = TopicProduceData(self._full(name), partition_data=[data])
        request = ProduceRequest(None, -1, 30_000, [topic])
        answer = (peer or self.peer).ask(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def trim(self, name: str, offset: int) -> None:
        """Delete the records before ``offset``."""
        topic = DeleteRecordsTopic(
            self._full(name), [DeleteRecordsPartition(0, offset)]
        )
        self.peer.ask(DeleteRecordsRequest([topic], 30_000), 2)

    def request(
        self,
        asked: list[Asked],
        forgotten: list[tuple[str, int]] | None = None,
        *,
        epoch: int | None = None,
        session_id: int | None = None,
        max_wait_ms: int = 0,
        bytes_max: int = BYTES_MAX,
        **of_partitions: Any,
    ) -> FetchRequest:
        """In the player's session and at its epoch, unless others are given."""
        topics: list[FetchTopic] = []
        for name, index, offset in asked:
            one = FetchPartition(index, fetch_offset=offset)
            one.partition_max_bytes = bytes_max
            topic = FetchTopic(self._full(name), self._id(name), [one])
            topic.partitions[0] = replace(one, **of_partitions)
            topics.append(topic)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            session_id=self.session if session_id is None else session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            topics=topics,
            forgotten_topics_data=[
                ForgottenTopic(self._full(name), self._id(name), [index])
                for name, index in forgotten or ()
            ],
        )

    def fetch(
        self,
        *asked: Asked,
        forgotten: list[tuple[str, int]] | None = None,
        version: int | None = None,
        peer: Peer | None = None,
        **more: Any,
    ) -> str:
        """The line of an answer; the session and its epoch go on as a client's do."""
        version = self.version if version is None else version
        request = self.request(list(asked), forgotten, **more)
        return self.line(self.ask(request, version, peer), request)

    def line(self, response: FetchResponse, request: FetchRequest) -> str:
        if response.error_code == 0:
            self.session = response.session_id
            self.epoch = request.session_epoch + 1 if response.session_id else FULL
        session = self.sessions.setdefault(
            response.session_id, f"S{len(self.sessions)}"
        )
        answered = [
            (one.error_code != 0, f"{self._name(topic)}-{_partition_line(one)}")
            for topic in response.responses
            for one in topic.partitions
        ]
        good = [line for has_error, line in answered if not has_error]
        parts = good + sorted(line for has_error, line in answered if has_error)
        nodes = ["nodes"] if response.node_endpoints else []
        return " ".join([f"{response.error_code} {session}", *parts, *nodes])

    def ask(
        self,
        request: FetchRequest,
        version: int | None = None,
        peer: Peer | None = None,
    ) -> FetchResponse:
        version = self.version if version is None else version
        answer = (peer or self.peer).ask(request, version)
        assert isinstance(answer, FetchResponse)
        return answer

    def _full(self, name: str) -> str:
        return f"{name}.{self.suffix}"

    def _id(self, name: str) -> bytes:
        return self.ids.get(name, name.encode().ljust(16, b"?"))

    def _name(self, topic: FetchableTopicResponse) -> str:
        """What the story calls a topic."""
        if topic.topic:
            return topic.topic.removesuffix(f".{self.suffix}")
        known = {one: name for name, one in self.ids.items()}
        unknown = topic.topic_id.decode(errors="replace").strip("?")
        return known.get(topic.topic_id, unknown)


def _partition_line(data: PartitionData) -> str:
    records = memoryview(data.records or b"")  # type: ignore[arg-type]
    batches = 0
    while records:
        records = records[read_header(records).size :]
        batches += 1
    leader = ""
    if data.current_leader is not None and data.current_leader.leader_id >= 0:
        leader = f"/leader@{data.current_leader.leader_epoch}"
    what = f"e{data.error_code}" if data.error_code else f"hw{data.high_watermark}"
    start = f"/from{data.log_start_offset}" if data.log_start_offset > 0 else ""
    return f"{data.partition_index}:{what}{start}/{batches}{leader}"


def only_what_changed_is_answered(player: Player) -> Iterator[str]:
    player.create("t", 3)
    yield player.fetch(("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    yield player.fetch()
    player.produce("t", 1)
    yield player.fetch()
    yield player.fetch()  # it has not gone on
    yield player.fetch(("t", 1, 1))
    yield player.fetch()
    player.produce("t", 1)
    player.trim("t", 0)
    yield player.fetch(("t", 1, 2))  # the end is new, and there is nothing behind it
    yield player.fetch()


def partitions_take_turns(player: Player) -> Iterator[str]:
    player.create("t", 3)
    for index in (0, 1, 2, 0, 1, 2):
        player.produce("t", index)
    for _ in range(5):
        asked = [("t", i, 0) for i in range(3)] if player.epoch == FULL else []
        yield player.fetch(*asked, bytes_max=1)
    yield player.fetch(("t", 0, 1), bytes_max=1)
    yield player.fetch(bytes_max=1)


def a_log_start_that_moves_is_answered(player: Player) -> Iterator[str]:
    player.create("t")
    player.produce("t")
    player.produce("t")
    yield player.fetch(("t", 0, 2))
    player.trim("t", 1)
    yield player.fetch()
    yield player.fetch()
    yield player.fetch(("t", 0, 0))
    yield player.fetch()
    yield player.fetch(("t", 0, 2))
    yield player.fetch()


def sessions_and_epochs_are_checked(player: Player) -> Iterator[str]:
    player.create("t")
    for session_id in (0, 1, -1, 1 << 30):
        for epoch in (1, 7, EPOCH_MAX, -2, -(1 << 31)):
            yield player.fetch(("t", 0, 0), session_id=session_id, epoch=epoch)
    yield player.fetch(("t", 0, 0), session_id=12345, epoch=CLOSE)
    yield player.fetch(("t", 0, 0), session_id=12345, epoch=FULL)
    session = player.session
    for epoch in (2, 7, -2, EPOCH_MAX):
        yield player.fetch(session_id=session, epoch=epoch)
    other = BY_ID if player.version == BY_NAME else BY_NAME
    yield player.fetch(session_id=session, epoch=1, version=other)
    yield player.fetch(session_id=session, epoch=1)
    yield player.fetch(session_id=session, epoch=1)
    yield player.fetch(session_id=session, epoch=2)


def a_full_request_closes_its_session(player: Player) -> Iterator[str]:
    player.create("t")
    yield player.fetch(("t", 0, 0))
    session = player.session
    yield player.fetch(("t", 0, 0), epoch=FULL)
    yield player.fetch(session_id=session, epoch=1)
    yield player.fetch(epoch=1)
    session = player.session
    yield player.fetch(("t", 0, 0), epoch=CLOSE)
    yield player.fetch(session_id=session, epoch=2)


def what_is_forgotten_is_answered_no_more(player: Player) -> Iterator[str]:
    player.create("t", 3)
    yield player.fetch(("t", 0, 0), ("t", 1, 0))
    player.produce("t", 0)
    player.produce("t", 1)
    yield player.fetch(forgotten=[("t", 0), ("t", 2), ("nowhere", 0)])
    yield player.fetch(("t", 2, 0), forgotten=[("t", 2)])
    yield player.fetch(("t", 0, 0), ("t", 2, 0))
    yield player.fetch(forgotten=[("t", 0), ("t", 1), ("t", 2)])
    yield player.fetch()


def a_session_of_nothing(player: Player) -> Iterator[str]:
    player.create("t")
    yield player.fetch()
    yield player.fetch()
    player.produce("t")
    yield player.fetch(("t", 0, 0))


def errors_are_answered_each_time(player: Player) -> Iterator[str]:
    player.create("t")
    yield player.fetch(("t", 0, 0), ("t", 5, 0), ("late", 0, 0))
    yield player.fetch()
    yield player.fetch(("t", 0, 9))
    yield player.fetch()
    yield player.fetch(("t", 0, 0))
    yield player.fetch(("t", 0, 0), current_leader_epoch=1)
    yield player.fetch()
    yield player.fetch(("t", 0, 0), current_leader_epoch=0)
    yield player.fetch(("t", 0, 0), last_fetched_epoch=1)
    yield player.fetch(("t", 0, 0), ("t", 0, 7), ("t", 0, 0))
    if player.version < BY_ID_SINCE:
        player.create("late")
        yield player.fetch()
        yield player.fetch()


def a_topic_is_deleted_and_made_again(player: Player) -> Iterator[str]:
    player.create("t")
    player.create("u")
    player.produce("t")
    yield player.fetch(("t", 0, 1), ("u", 0, 0))
    line = player.fetch()
    old = player.ids["t"]
    player.delete("t")
    yield (line := _what_follows(player, line))
    player.create("t")
    player.ids["new"], player.ids["t"] = player.ids["t"], old
    yield _what_follows(player, line)
    player.produce("t")
    yield player.fetch()
    yield player.fetch(("t", 0, 0))
    yield player.fetch(("u", 0, 0), forgotten=[("t", 0)])
    yield player.fetch(("t", 0, 0), epoch=FULL)


def _what_follows(player: Player, line: str) -> str:
    """The first answer that is not ``line``: a broker needs a while to know a topic."""
    return until(player.fetch, lambda found: found != line)


def two_fetches_of_one_session(player: Player) -> Iterator[str]:
    player.create("t")
    yield player.fetch(("t", 0, 0))
    session = player.session
    with Peer(player.bootstrap, STUCK_S) as other:
        first = player.request([], max_wait_ms=ENDLESS_MS, epoch=1)
        player.peer.send(frame_of(first, player.version))

        def ask_next() -> str:
            """Until then the first one may be on its way."""
            return player.fetch(session_id=session, epoch=2, peer=other)

        yield until(ask_next, lambda line: not line.startswith("71"))
        player.produce("t", peer=other)
        answer = player.peer.answer(1, player.version)
        yield "first: " + player.line(answer, first)
        yield player.fetch(session_id=session, epoch=3, peer=other)


def replicas_and_their_fields(player: Player) -> Iterator[str]:
    player.create("t")
    player.produce("t")
    for replica_id in (5, 0, -2, -3):
        for epoch in (-1, 0, 1):
            asked = player.request([("t", 0, 0)], session_id=0, epoch=CLOSE,
                                   current_leader_epoch=epoch)  # fmt: skip
            asked.replica_id = replica_id
            asked.replica_state = ReplicaState(replica_id, 3)
            yield f"replica {replica_id} epoch {epoch}: " + player.line(
                player.ask(asked), asked
            )
    for epoch in (FULL, CLOSE):
        asked = player.request([("t", 0, 0)], epoch=epoch)
        asked.replica_id = 5
        asked.replica_state = ReplicaState(5, 3)
        yield "session: " + player.line(player.ask(asked), asked)
    fields: list[dict[str, Any]] = [
        {"log_start_offset": 7},
        {"replica_directory_id": b"d" * 16},
        {"high_watermark": 0},
        {"high_watermark": 7},
        {"last_fetched_epoch": 0},
    ]
    for field in fields:
        yield f"{sorted(field)}: " + player.fetch(
            ("t", 0, 0), session_id=0, epoch=CLOSE, **field
        )
    asked = player.request([("t", 0, 0)], session_id=0, epoch=CLOSE)
    asked.cluster_id = "another"
    yield "cluster: " + player.line(player.ask(asked), asked)


STORIES: tuple[Callable[[Player], Iterator[str]], ...] = (
    only_what_changed_is_answered,
    partitions_take_turns,
    a_log_start_that_moves_is_answered,
    sessions_and_epochs_are_checked,
    a_full_request_closes_its_session,
    what_is_forgotten_is_answered_no_more,
    a_session_of_nothing,
    errors_are_answered_each_time,
    a_topic_is_deleted_and_made_again,
    two_fetches_of_one_session,
    replicas_and_their_fields,
)
