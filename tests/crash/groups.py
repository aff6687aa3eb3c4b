"""Groups that commit while the broker dies, and what it has of them afterwards.

A commit that was answered must be there after any crash; one that was asked for and
not answered may be there or not. `Committer` asks with bytes of its own, because a
client library would repeat an unanswered commit and so hide that one was lost.
"""

import itertools
import socket
import struct
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.protocol.codec import response_decoder
from broker.protocol.errors import ErrorCode
from broker.protocol.frames import decode_response_head
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.crash.workload import QUICK, wait_for
from tests.support.patience import IDLE_S, STUCK_S
from tests.support.wire import frame_of

VERSION = 7
GROUPS = 5
Place = tuple[str, int]  # group, partition


class Committer(threading.Thread):
    """Commits ever higher offsets of several groups, one request at a time.

    ``acknowledged`` and ``asked``: the last offset of each place that was answered,
    and the last that was asked for.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        host, port = bootstrap.rsplit(":", 1)
        self._address = (host, int(port))
        self.topic, self.partitions = topic, partitions
        self.acknowledged: dict[Place, int] = {}
        self.asked: dict[Place, int] = {}
        self.answered = 0
        self.errors: set[int] = set()
        self.stopping = threading.Event()

    def run(self) -> None:
        numbers = itertools.count(1)
        while not self.stopping.is_set():
            try:
                with socket.create_connection(
                    self._address, timeout=IDLE_S
                ) as connection:
                    while not self.stopping.is_set():
                        self._commit(connection, next(numbers))
            except OSError:
                time.sleep(0.02)

    def _commit(self, connection: socket.socket, number: int) -> None:
        place = (f"g{number % GROUPS}", number % self.partitions)
        # Small, so that it lies within the log whatever the producers reached.
        offset = self.asked.get(place, 0) + 1
        self.asked[place] = offset
        partition = OffsetCommitRequestPartition(place[1], offset)
        request = OffsetCommitRequest(
            group_id=place[0],
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        connection.sendall(frame_of(request, VERSION))
        answer = _receive(connection, int(request.API_KEY))
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            self.acknowledged[place] = offset
            self.answered += 1
        else:
            self.errors.add(int(code))
            time.sleep(0.02)

    def finish(self) -> None:
        """Stop, once anything at all was answered."""
        wait_for(lambda: self.answered)
        self.stopping.set()
        self.join(STUCK_S)
        assert not self.is_alive()

    def judge(self, bootstrap: str) -> None:
        """Each group is where its last answered commit put it, or AssertionError."""
        assert self.answered
        for group in sorted({group for group, _ in self.asked}):
            found = committed(bootstrap, self.topic, group, self.partitions)
            for partition in range(self.partitions):
                place = (group, partition)
                low, high = self.acknowledged.get(place, 0), self.asked.get(place, 0)
                there = found.get(partition, 0)
                assert low <= there <= high, f"{place}: {there} not in {low}..{high}"


def _receive(connection: socket.socket, key: int) -> Any:
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    frame = memoryview(_exactly(connection, length))
    _, position = decode_response_head(frame, key, VERSION)
    return response_decoder(key, VERSION)(frame, position)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the broker is gone")
        data += more
    return data


class Member(threading.Thread):
    """A member of a consumer group that reads and commits, one commit at a time.

    ``starts``: partition -> the first offset it was given. ``acknowledged`` and
    ``asked`` as those of `Committer`.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.stopping = threading.Event()
        self._topic = topic
        self._consumer = Consumer(
            QUICK
            | {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 500,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self.stopping.is_set():
            read: dict[int, int] = {}
            for message in self._consumer.consume(50, timeout=0.2):
                if message.error() is None:
                    partition, offset = message.partition(), message.offset()
                    self.starts.setdefault(partition, offset)
                    read[partition] = offset + 1
            self._commit(read)
        self._consumer.close()

    def _commit(self, read: dict[int, int]) -> None:
        if not read:
            return
        self.asked |= read
        wanted = [TopicPartition(self._topic, p, o) for p, o in read.items()]
        try:
            answered = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return
        for one in answered or ():
            if one.error is None:
                self.acknowledged[one.partition] = one.offset

    def finish(self) -> None:
        self.stopping.set()
        self.join(STUCK_S)
        assert not self.is_alive()


def committed(
    bootstrap: str, topic: str, group: str, partitions: int
) -> dict[int, int]:
    """Partition -> what the group has committed, asked by a new client."""
    consumer = Consumer(QUICK | {"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, n) for n in range(partitions)]
    try:
        found = consumer.committed(wanted, timeout=IDLE_S)
    finally:
        consumer.close()
    return {one.partition: one.offset for one in found if one.offset >= 0}
