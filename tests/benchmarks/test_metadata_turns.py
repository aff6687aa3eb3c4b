"""No turn of the loop is longer than ten milliseconds, however many topics there are.

Processor time of the loop's thread; the best of some rounds counts.
"""

from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.apis.metadata import metadata
from broker.dispatch.dispatcher import Route
from broker.lake.retention import UNLIMITED
from broker.protocol.messages.metadata import MetadataRequest
from broker.runtime.process.maintenance import MaintenanceScheduler
from broker.runtime.services import Broker
from broker.settings import Settings
from broker.topics.topic import Topic
from lakehouse.actions import DataFile
from tests.support.clock import ManualClock
from tests.support.rig import rig, run, start
from tests.support.turns import check_turn, turns_ms

TOPICS, PARTITIONS = 10_000, 10
FILES = 1_000


def check(what: str, story: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    check_turn(what, lambda: max(turns_ms(story())))


async def all_topics(broker: Broker) -> None:
    response = await start(metadata, MetadataRequest(None), broker, 12)
    Route(metadata.served, 12).answer(1, response)


def test_metadata_of_ten_thousand_topics_with_ten_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rig(tmp_path) as broker:
            broker.topics.load(
                Topic(n, n.to_bytes(16, "big"), f"topic-{n}", PARTITIONS)
                for n in range(1, TOPICS + 1)
            )

            async def first_time() -> None:
                broker.topics.derived(("metadata", 12, False)).clear()
                await all_topics(broker)

            check("metadata, new", first_time)
            check("metadata, kept", lambda: all_topics(broker))

    run(scenario)


def test_retention_of_a_thousand_partitions_with_a_thousand_files() -> None:
    files = [
        DataFile(str(n), 0, 1, 1, n, n, 0, 1 << 60, 0, False) for n in range(FILES)
    ]
    config = SimpleNamespace(deleted=True, retention_ms=1, retention_bytes=UNLIMITED)
    empty: Any = SimpleNamespace(index=SimpleNamespace(bytes_between=lambda *_: 0))
    partitions = [
        SimpleNamespace(
            key=(1, index), config=config, log=empty, log_start=0, high_watermark=FILES
        )
        for index in range(1_000)
    ]
    broker: Any = SimpleNamespace(
        clock=ManualClock(),
        partitions=partitions,
        settings=Settings(data_dir=Path("/nowhere")),
    )
    lake: Any = SimpleNamespace(files=lambda *_: files, table_end=lambda *_: FILES)
    segment_retention: Any = SimpleNamespace(ages_ms={1: 0})
    nobody: Any = SimpleNamespace()
    maintenance = MaintenanceScheduler(broker, lake, segment_retention, nobody)
    check("retention", maintenance.apply_retention)
