"""Consumers for a moment, each on a thread of its own, never more than a few.

librdkafka's consumer may not be closed while it reads, so all that is done with one is
done on its one thread, in order. It belongs to no group and commits nothing.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, TopicPartition

from admin_api.problems import Problem

READERS_MAX: Final = 32
QUEUED_BYTES_MAX: Final = 32 << 20
"""What waits in librdkafka for all readers together, a batch for each aside: a tail
whose client reads nothing holds its part for as long as it lasts."""
QUEUED_RECORDS_MIN: Final = 1_000
"""A reader that has fewer fetches more; each takes some hundred bytes of ours."""
FETCH_BYTES_MAX: Final = 16 << 10
"""librdkafka decompresses all that came before it counts what waits: 64 MiB of zeros
come as 3 kB. A batch that is larger comes alone."""
GROUP: Final = "lakelog-admin-reader"
"""librdkafka wants the name of a group; nobody ever joins it."""

T = TypeVar("T")


class Readers:
    """Makes readers, and knows how many there are."""

    def __init__(
        self,
        bootstrap: str,
        readers_max: int = READERS_MAX,
        make: Callable[[dict[str, Any]], Any] = Consumer,
    ) -> None:
        self._make, self._most = make, readers_max
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": FETCH_BYTES_MAX,
            "fetch.max.bytes": FETCH_BYTES_MAX,
            "message.max.bytes": FETCH_BYTES_MAX,  # else fetches are raised to it
            "queued.max.messages.kbytes": QUEUED_BYTES_MAX // readers_max >> 10,
            "queued.min.messages": QUEUED_RECORDS_MIN,
            "fetch.queue.backoff.ms": 20,  # a second if nothing is said
            "log_level": 2,
            "error_cb": lambda _error: None,
        }
        self._lock = threading.Lock()
        self.open = 0
        """Readers whose consumers are not closed yet."""
        self.stopping = threading.Event()
        """Who reads for as long as he likes ends now: the plane stops."""

    def reader(self, topic: str, starts: Mapping[int, int]) -> "Reader":
        """A reader of these partitions from these offsets on; it has to be closed.

        Raises Problem 42901 while there are too many.
        """
        with self._lock:
            if self.open >= self._most:
                raise Problem(42901, "Too many are reading; try again later.")
            self.open += 1
        places = [TopicPartition(topic, *place) for place in starts.items()]
        return Reader(lambda: self._consumer(places), self._closed, self.stopping)

    def _consumer(self, places: list[TopicPartition]) -> Any:
        consumer = self._make(self._config)
        consumer.assign(places)
        return consumer

    def _closed(self) -> None:
        with self._lock:
            self.open -= 1


class Reader:
    """One consumer; what it is asked for runs on its thread, one after the other."""

    def __init__(
        self,
        make: Callable[[], Any],
        on_closed: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._make, self._on_closed = make, on_closed
        self.stopping = stopping
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._consumer: Any = None
        self._is_closing = threading.Event()

    async def run(self, work: Callable[[Any, threading.Event], T]) -> T:
        """What ``work`` makes of the consumer; the event says that nobody waits any
        more for what it does."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run, work)

    def close(self) -> None:
        """Close the consumer once its thread is free; returns at once."""
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _run(self, work: Callable[[Any, threading.Event], T]) -> T:
        if self._consumer is None:
            self._consumer = self._make()
        return work(self._consumer, self._is_closing)

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close()
        finally:
            self._on_closed()
