"""Producer ids, handed out one by one from blocks that the catalog gave for good.

An id that came twice would make one producer's records the other's duplicates, so a
block is durable before its first id is given, and what is left of it at a crash is lost
(``catalog/producers.py``). A block of a thousand makes that one commit in a thousand;
whoever comes while the next one is on its way waits for it.
"""

import asyncio
from collections.abc import Iterator
from typing import TypeVar

from broker.catalog import producers as stored
from broker.catalog.catalog import Catalog
from broker.ids import ProducerId

T = TypeVar("T")


class ProducerIds:
    """New producer ids. For the event loop's thread only."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._block: Iterator[int] = iter(())
        self._next_block: asyncio.Future[range] | None = None

    async def next(self) -> ProducerId:
        """An id that nobody has or ever had.

        Raises KafkaError KAFKA_STORAGE_ERROR if the catalog cannot be written.
        """
        while True:
            for producer_id in self._block:
                return ProducerId(producer_id)
            await self._load()

    async def _load(self) -> None:
        """Fetch a block, or wait for the one that somebody else fetches."""
        block = self._next_block
        if block is None:
            submitted = self._catalog.submit(stored.next_block)
            block = self._next_block = asyncio.wrap_future(submitted)
            block.add_done_callback(self._loaded)
        elif block.done():
            # Its callback is a turn away, and to wait for what is done takes none.
            self._loaded(block)
        # Shielded: who waits may go away, the others still want the block.
        await asyncio.shield(block)

    def _loaded(self, block: "asyncio.Future[range]") -> None:
        if block is not self._next_block:
            return  # it was taken before: its ids are given once
        self._next_block = None
        if not block.cancelled() and block.exception() is None:
            self._block = iter(block.result())
