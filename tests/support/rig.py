"""A broker without a network: its own assembly, on tables of lists.

``async with rig(tmp_path) as broker`` starts one; leaving stops it, and a second one on
the same path starts as after a restart. ``call`` asks a handler as a connection would.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from broker.assembly import Surroundings, assemble
from broker.clock import SystemClock
from broker.dispatch.context import Context
from broker.ids import TopicPartition
from broker.lake.cold import ColdRead, Searched
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.batch import read_header
from broker.runtime.partitions.partition import Partition
from broker.runtime.process.loop_timers import LoopTimers
from broker.runtime.services import Broker
from broker.settings import BrokerSettings, LakeSettings, Settings, WalSettings
from broker.storage.files import Files, PosixFiles
from broker.timing.delayed import Timers
from broker.topics.topic import Topic
from tests.support.batches import Record, make_batch, read_batch
from tests.support.clock import ManualClock
from tests.support.new_catalog import lay_catalog
from tests.support.patience import STUCK_S

NODE_ID = 7
SEGMENT_BYTES = 1 << 20
PRODUCE_TIMEOUT_MS = 30_000
ENDLESS_MS = int(2 * STUCK_S * 1000)
"""A long poll of which no story lives to see the end: what answers it is the append."""


class Tables:
    """What stands in tables: whole batches in lists. Outlives a rig."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[bytes]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.reads = 0

    def start(self, topics: Iterable[Topic]) -> None:
        """Lists need no start."""

    def close(self) -> None:
        """They stay for the next rig."""

    def topic_created(self, topic: Topic) -> None:
        """There is a list as soon as something is in it."""

    def topic_changed(self, topic: Topic) -> None:
        """Nothing here depends on it."""

    def topic_deleted(self, topic: Topic) -> None:
        """Nobody asks for it again: a number is never given twice."""

    def files(self, number: int, partition: int) -> list[Any]:
        return []

    def verified_ends(self, number: int) -> dict[int, int]:
        return {index: end for (n, index), end in self.ends.items() if n == number}

    def lacking(self, number: int) -> dict[int, list[tuple[int, int]]]:
        return {}

    def unverified(self) -> list[int]:
        return []

    def unreadable(self, number: int) -> str | None:
        return self.unreadable_topics().get(number)

    def unreadable_topics(self) -> dict[int, str]:
        return {}

    def unserved_topics(self) -> dict[int, str]:
        return self.unreadable_topics()

    def table_end(self, number: int, partition: int) -> int:
        return self.ends.get((number, partition), 0)

    def table_bytes(self, number: int, partition: int) -> int:
        return sum(map(len, self.batches.get((number, partition), ())))

    async def read(
        self, number: int, partition: int, offset: int, bytes_max: int
    ) -> ColdRead:
        await asyncio.sleep(0)
        self.reads += 1
        found: list[bytes] = []
        end = self.table_end(number, partition)
        for batch in self.batches.get((number, partition), ()):
            header = read_header(batch)
            if header.last_offset < offset:
                continue
            if found and sum(map(len, found)) + len(batch) > bytes_max:
                end = header.base_offset
                break
            found.append(batch)
        return ColdRead([memoryview(batch) for batch in found], end)

    async def find_timestamp(
        self, number: int, partition: int, timestamp_ms: int, start_offset: int
    ) -> Searched:
        end = self.table_end(number, partition)
        for record in self._records(number, partition, start_offset):
            if record.timestamp >= timestamp_ms:
                return Searched((record.offset, record.timestamp), end)
        return Searched(None, end)

    async def max_timestamp(
        self, number: int, partition: int, start_offset: int
    ) -> Searched:
        records = self._records(number, partition, start_offset)
        end = self.table_end(number, partition)
        if not records:
            return Searched(None, end)
        latest = max(records, key=lambda record: record.timestamp)
        return Searched((latest.offset, latest.timestamp), end)

    def why_missing(self, number: int, partition: int) -> str:
        return f"the table ends at {self.table_end(number, partition)}"

    def take_changed(self) -> list[int]:
        return []

    def problems(self) -> list[str]:
        return []

    def _records(self, number: int, partition: int, start: int) -> list[Record]:
        batches = self.batches.get((number, partition), ())
        records = [record for batch in batches for record in read_batch(batch)]
        return [record for record in records if record.offset >= start]

    def compact(self, broker: Broker, partition: Partition) -> None:
        """Move everything durable into the table and let the segments' part go."""
        index = partition.log.index
        kept = self.batches.setdefault(partition.key, [])
        kept.extend(
            broker.wal.read([(entry.location, entry.length) for entry in index])
        )
        self.ends[partition.key] = partition.high_watermark
        index.trim_below(partition.high_watermark)


class Unread(Tables):
    """Tables that exist, and cannot be read for a while."""

    why: str | None = None

    def unreadable_topics(self) -> dict[int, str]:
        return {} if self.why is None else {1: self.why}

    def table_end(self, number: int, partition: int) -> int:
        return 0 if self.why else super().table_end(number, partition)

    def why_missing(self, number: int, partition: int) -> str:
        return self.why or super().why_missing(number, partition)


@asynccontextmanager
async def rig(
    path: Path,
    *,
    tables: Tables | None = None,
    files: Files | None = None,
    clock: ManualClock | None = None,
    timers: Timers | None = None,
    hot_bytes: int = 8 << 20,
    warehouses: str = "",
    **broker_settings: Any,
) -> AsyncIterator[Broker]:
    """A running broker whose data are in ``path``."""
    loop = asyncio.get_running_loop()
    lay_catalog(path)
    standing = tables or Tables()
    settings = Settings(
        data_dir=path,
        node_id=NODE_ID,
        wal=WalSettings(segment_bytes=SEGMENT_BYTES, hot_bytes=hot_bytes),
        broker=BrokerSettings(**broker_settings),
        lake=LakeSettings(warehouses=warehouses),
    )
    own_timers = LoopTimers(loop, SystemClock())
    around = Surroundings(
        loop,
        files or PosixFiles(),
        clock or ManualClock(),
        own_timers if timers is None else timers,
        lambda _: standing,
    )
    async with AsyncExitStack() as ends:
        ends.callback(own_timers.close)
        broker = assemble(settings, around, ends).broker
        broker.advertised = ("localhost", 9092)
        yield broker


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a loop of its own; no longer than a stuck one would."""

    async def bounded() -> None:
        async with asyncio.timeout(STUCK_S):
            await scenario()

    asyncio.run(bounded())


def start(handler: Any, request: Any, broker: Broker, version: int = -1) -> Any:
    """What the handler gives: a response, None, or an awaitable."""
    served = handler.served
    return handler(
        request,
        Context(
            version=served.last_version if version < 0 else version,
            client_id="test",
            key=int(served.key),
            peer_host="127.0.0.1",
            broker=broker,
        ),
    )


async def call(handler: Any, request: Any, broker: Broker, version: int = -1) -> Any:
    """The handler's response, in its highest version unless one is named."""
    result = start(handler, request, broker, version)
    return await result if hasattr(result, "__await__") else result


async def create(
    broker: Broker, name: str, partitions: int = 1, **configs: str
) -> Partition:
    """A topic; its first partition. ``max_message_bytes=...`` sets a config."""
    from broker.apis.create_topics import create_topics

    asked = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(key.replace("_", "."), value)
            for key, value in configs.items()
        ],
    )
    response = await call(create_topics, CreateTopicsRequest([asked]), broker)
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    return broker.partitions.named(name, 0)


def batch_of(*values: bytes, **more: Any) -> bytearray:
    """A batch of records with these values."""
    return make_batch([Record(value=value) for value in values], **more)


def produce_request(
    name: str, *entries: tuple[int, Any], acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """Entries are (partition, records)."""
    data = [PartitionProduceData(index, records) for index, records in entries]
    return ProduceRequest(
        None, acks, PRODUCE_TIMEOUT_MS, [TopicProduceData(name, topic_id, data)]
    )


async def produce_one(
    broker: Broker, name: str, records: Any, version: int = 12, partition: int = 0
) -> PartitionProduceResponse:
    """Produce one batch; the partition's answer."""
    from broker.apis.produce import produce

    request = produce_request(name, (partition, records))
    response = await call(produce, request, broker, version)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def fetch_request(
    name: str,
    *places: TopicPartition,
    bytes_max: int = 1 << 20,
    partition_bytes_max: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    **fields: Any,
) -> FetchRequest:
    """Places are (partition, offset)."""
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_bytes_max,
        )
        for index, offset in places
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=bytes_max,
        topics=[FetchTopic(topic=name, partitions=partitions)],
        **fields,
    )


async def fetch_one(
    broker: Broker, name: str, offset: int, version: int = 12, **more: Any
) -> PartitionData:
    """Fetch partition 0 from an offset; the partition's answer."""
    from broker.apis.fetch import fetch

    request = fetch_request(name, (0, offset), **more)
    response = await call(fetch, request, broker, version)
    assert response.error_code == 0
    data: PartitionData = response.responses[0].partitions[0]
    return data


def batches_in(data: PartitionData) -> list[bytes]:
    """The whole batches of a fetched partition."""
    records = data.records
    parts: Sequence[Any] = (
        [records] if isinstance(records, bytes | memoryview) else records or []
    )
    joined, batches = b"".join(parts), []
    while joined:
        size = read_header(joined).size
        batches.append(joined[:size])
        joined = joined[size:]
    return batches


def values_in(data: PartitionData) -> list[bytes | None]:
    """The values of all records of a fetched partition."""
    return [record.value for batch in batches_in(data) for record in read_batch(batch)]


async def carry_sealed(broker: Broker, needed: dict[TopicPartition, int]) -> Any:
    """Carry what is ``needed`` (partition -> from which offset on) of all sealed
    segments into one; they are not released yet."""
    broker.partitions.checkpoint()
    sealed = [info.sequence for info in broker.wal.segments() if info.sealed]
    while not broker.wal.takes_behind(sealed[-1]):
        await asyncio.sleep(0.001)
    heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    broker.wal.carry(sealed, needed, heard.set_result)
    carried = await heard
    assert carried is not None
    return carried
