"""No turn of the loop is longer than ten milliseconds, however many topics there are.

Processor time of the loop's thread; the best of some rounds counts.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.apis.metadata import metadata
from broker.catalog import holds
from broker.catalog.catalog import Catalog
from broker.dispatch.dispatcher import Route
from broker.lake.retention import UNLIMITED
from broker.protocol.messages.metadata import MetadataRequest
from broker.runtime.process.maintenance import MaintenanceScheduler
from broker.runtime.services import Broker
from broker.settings import Settings
from broker.topics.topic import Topic
from lakehouse.log.actions import DataFile
from tests.support.clock import ManualClock
from tests.support.rig import rig, run, start
from tests.support.turns import callbacks_ms, check_turn, turns_ms

TOPICS, PARTITIONS = 10_000, 10
FILES = 1_000
HOLD_MS, LONG_MS = 60_000, 1 << 40


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


def test_retention_of_a_thousand_partitions_with_a_thousand_files(
    tmp_path: Path,
) -> None:
    files = [
        DataFile(str(n), 0, 1, 1, n, n, 0, 1 << 60, 0, False) for n in range(FILES)
    ]
    config = SimpleNamespace(
        deleted=True, retention_ms=1, retention_bytes=UNLIMITED, lake_flush_max_ms=1_000
    )
    in_segments = [(sequence, FILES, 1, 1 << 60) for sequence in range(100)]
    index = SimpleNamespace(bytes_between=lambda *_: 0, parts=lambda: in_segments)
    partitions = [
        SimpleNamespace(
            key=(TOPICS, n), number=TOPICS, config=config, log_start=0,
            log=SimpleNamespace(index=index), high_watermark=FILES,
        )
        for n in range(1_000)
    ]  # fmt: skip
    topics = [Topic(n, n.to_bytes(16), f"topic-{n}", 1) for n in range(1, TOPICS + 1)]
    lake: Any = SimpleNamespace(files=lambda *_: files, table_end=lambda *_: FILES)
    segment_retention: Any = SimpleNamespace(ages_ms=dict.fromkeys(range(100), LONG_MS))
    nobody: Any = SimpleNamespace()
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        clock = ManualClock()
        broker: Any = SimpleNamespace(
            clock=clock,
            wal=nobody,
            catalog=catalog,
            topics=SimpleNamespace(all=lambda: topics),
            partitions=partitions,
            settings=Settings(data_dir=Path("/nowhere")),
        )
        held = topics[-1].id.hex()
        catalog.change(lambda c: holds.hold(c, held, "owner", clock.now_ms(), HOLD_MS))
        maintenance = MaintenanceScheduler(broker, lake, segment_retention, nobody)
        asyncio.run(maintenance.apply_retention())
        clock.advance(LONG_MS)
        check_turn("retention", lambda: longest_ms(maintenance.apply_retention))


def longest_ms(story: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    """The longest callback of a story that may wait for threads."""
    with callbacks_ms() as turns:
        asyncio.run(story())
    return max(turns)
