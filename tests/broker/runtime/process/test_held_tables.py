"""For how long records could have come to their tables, by the monotonic clock."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.catalog import holds
from broker.catalog import topics as stored
from broker.catalog.catalog import Catalog
from broker.runtime.process.held_tables import HeldTables
from broker.topics.topic import Topic
from tests.support.clock import ManualClock


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        yield catalog


def topic(catalog: Catalog, name: str, id_: int) -> Topic:
    return catalog.change(lambda c: stored.create(c, name, bytes([id_]) * 16, 1, {}, 1))


def test_time_counts_from_the_start_and_from_when_a_table_was_last_held(
    catalog: Catalog,
) -> None:
    clock = ManualClock()
    held, free = topic(catalog, "held", 1), topic(catalog, "free", 2)
    tables, now_ms = HeldTables(catalog, clock), clock.now_ms()
    catalog.change(lambda c: holds.hold(c, held.id.hex(), "owner", now_ms, 1_000))

    def look(*topics: Topic) -> None:
        clock.advance(600)
        asyncio.run(tables.look(topics))

    for held_ms, free_ms in [(0, 600), (600, 1_200), (1_200, 1_800)]:
        look(held, free)
        assert tables.free_ms(held.number) == held_ms
        assert tables.free_ms(free.number) == free_ms
    look(free)  # the other was deleted
    assert tables.free_ms(held.number) == tables.free_ms(free.number)
