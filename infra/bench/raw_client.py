"""Requests of Kafka's protocol without a client library, many connections a process.

A library's own work for two thousand members would be what is measured. Versions are
the newest that are not flexible (Metadata: 12), which Lakelog and Apache Kafka 4 serve.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import NamedTuple

METADATA, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 3, 10, 11, 12, 14
PRODUCE, FETCH = 0, 1

SESSION_MS = 45_000
REBALANCE_MS = 60_000
MEMBER_ID_REQUIRED = 79
NOT_READY = (14, 15, 16)
"""The coordinator loads, is not there yet, or is another one."""

ANSWER_BYTES_MAX = 256 << 20


class Refused(Exception):
    """The broker answered with an error that the measure does not expect."""


class Reader:
    """Fields of an answer, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def int16(self) -> int:
        return self._integer(2)

    def int32(self) -> int:
        return self._integer(4)

    def int64(self) -> int:
        return self._integer(8)

    def string(self) -> str | None:
        """A string, or null."""
        size = self.int16()
        return None if size < 0 else self._taken(size).decode()

    def data(self) -> bytes:
        return self._taken(max(self.int32(), 0))

    def _integer(self, size: int) -> int:
        return int.from_bytes(self._taken(size), "big", signed=True)

    def _taken(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += size
        return found


def string(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


SUBSCRIPTION = struct.pack(">hi", 0, 1) + string("costs") + struct.pack(">i", -1)
ASSIGNMENT = struct.pack(">hii", 0, 0, -1)
"""Whole ones: Kafka reads them, and never answers a group of which it cannot."""


class Connection:
    """One connection; a request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader, self._writer = reader, writer
        self._sent = 0

    @staticmethod
    async def open(port: int) -> "Connection":
        """To a broker of this machine."""
        return Connection(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(
        self, key: int, version: int, body: bytes, *, flexible: bool = False
    ) -> bytes:
        """The answer's body. Raises IncompleteReadError if the broker hangs up."""
        self._sent += 1
        head = struct.pack(">hhi", key, version, self._sent) + string("costs")
        head += b"\0" if flexible else b""
        self._writer.write(data(head + body))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        assert 4 <= size <= ANSWER_BYTES_MAX, f"an answer of {size} bytes"
        answer = await self._reader.readexactly(size)
        assert int.from_bytes(answer[:4], "big") == self._sent, "answers are in order"
        return answer[5:] if flexible else answer[4:]

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def open_many(port: int, count: int) -> list[Connection]:
    return [await Connection.open(port) for _ in range(count)]


async def all_metadata(connection: Connection) -> int:
    """Metadata 12 of all topics; the answer's bytes."""
    return len(await connection.ask(METADATA, 12, b"\0\0\0\0", flexible=True))


async def find_coordinator(connection: Connection, group: str) -> None:
    """Return when the group has a coordinator."""
    while True:
        answer = Reader(await connection.ask(FIND_COORDINATOR, 0, string(group)))
        if answer.int16() not in NOT_READY:
            return
        await asyncio.sleep(0.1)


class Joined(NamedTuple):
    """What a member was told; ``members`` only the leader is."""

    generation: int
    member: str
    members: Sequence[str]


class Member:
    """A member of a group, as a classic consumer with one protocol is."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection, self._group = connection, group
        self._member, self._generation = "", -1

    async def join(self) -> None:
        """From the first JoinGroup to the answer of SyncGroup."""
        joined = await self._joined()
        while joined is None:
            joined = await self._joined()
        self._generation = joined.generation
        assignments = struct.pack(">i", len(joined.members))
        for member in joined.members:
            assignments += string(member) + data(ASSIGNMENT)
        answer = Reader(
            await self._connection.ask(SYNC_GROUP, 3, self._who() + assignments)
        )
        answer.int32()
        _expect_no_error("SyncGroup", answer.int16())

    async def beat(self) -> None:
        answer = Reader(await self._connection.ask(HEARTBEAT, 3, self._who()))
        answer.int32()
        _expect_no_error("Heartbeat", answer.int16())

    async def _joined(self) -> Joined | None:
        """None: to be asked again, perhaps by the member id that it has now."""
        body = string(self._group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS)
        body += string(self._member) + string(None) + string("consumer")
        body += struct.pack(">i", 1) + string("range") + data(SUBSCRIPTION)
        answer = Reader(await self._connection.ask(JOIN_GROUP, 5, body))
        answer.int32()
        error, generation = answer.int16(), answer.int32()
        answer.string()
        leader, self._member = answer.string(), answer.string() or ""
        if error == MEMBER_ID_REQUIRED:
            return None
        if error in NOT_READY:
            await asyncio.sleep(0.1)
            return None
        _expect_no_error("JoinGroup", error)
        found = []
        for _ in range(answer.int32() if leader == self._member else 0):
            found.append(answer.string() or "")
            answer.string()
            answer.data()
        return Joined(generation, self._member, found)

    def _who(self) -> bytes:
        who = string(self._group) + struct.pack(">i", self._generation)
        return who + string(self._member) + string(None)


def _expect_no_error(what: str, error: int) -> None:
    if error:
        raise Refused(f"{what}: error {error}")


async def produce_old(
    connection: Connection, version: int, topic: str, messages: bytes
) -> None:
    """Produce 0 to 2 of a message set into partition 0, acks=all."""
    body = struct.pack(">hii", -1, 30_000, 1) + string(topic)
    body += struct.pack(">ii", 1, 0) + data(messages)
    answer = Reader(await connection.ask(PRODUCE, version, body))
    answer.int32(), answer.string(), answer.int32(), answer.int32()
    _expect_no_error("Produce", answer.int16())


async def fetch_old(
    connection: Connection, version: int, topic: str, offset: int, bytes_max: int
) -> bytes:
    """Fetch 1 to 3 of partition 0; the message set."""
    body = struct.pack(">iii", -1, 100, 1)
    body += struct.pack(">i", bytes_max) if version >= 3 else b""
    body += struct.pack(">i", 1) + string(topic)
    body += struct.pack(">iiqi", 1, 0, offset, bytes_max)
    answer = Reader(await connection.ask(FETCH, version, body))
    answer.int32(), answer.int32(), answer.string(), answer.int32(), answer.int32()
    _expect_no_error("Fetch", answer.int16())
    answer.int64()
    return answer.data()
