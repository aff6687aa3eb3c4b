"""What is measured, test by test: each gives name=value figures of one broker."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.bench import tools
from infra.bench.brokers import Measured

Figures = dict[str, float]
LINGER_MS = 5
LAPS = 5
"""A consumer reads what is in memory so often: once takes a tenth of a second."""


@dataclass(frozen=True)
class Sizes:
    """How much of each; ``--quick`` takes a tenth."""

    big: int = 1_000_000
    small: int = 4_000_000
    lines: int = 2_000_000
    old: int = 2_000_000
    secs: int = 8

    def quick(self) -> "Sizes":
        tenths = (count // 10 for count in (self.big, self.small, self.lines, self.old))
        return Sizes(*tenths, secs=3)


class Bench:
    """The tests, against whichever broker is handed in."""

    def __init__(self, binaries: Path, json_lines: Path, sizes: Sizes) -> None:
        self._bin, self._json, self._sizes = binaries, json_lines, sizes
        self._made: set[tuple[str, str]] = set()

    def tests(self) -> dict[str, Callable[[Measured], Figures]]:
        s = self._sizes
        return {
            "produce 1 kB, 1 partition": lambda b: self._bulk(b, "k1", 1, 1000, s.big),
            "produce 1 kB, 6 partitions": lambda b: self._bulk(b, "k6", 6, 1000, s.big),
            "produce 100 B": lambda b: self._bulk(b, "h1", 1, 100, s.small),
            "produce JSON": lambda b: self._lines(b, "none"),
            "produce JSON, lz4": lambda b: self._lines(b, "lz4"),
            "produce JSON, zstd": lambda b: self._lines(b, "zstd"),
            "one-record requests, 1 connection": lambda b: self._requests(b, 1),
            "one-record requests, 16 connections": lambda b: self._requests(b, 16),
            "one-record requests, 64 connections": lambda b: self._requests(b, 64),
            "acknowledgement at 200/s": lambda b: self._paced(b, "paced", 200),
            "acknowledgement at 20 MB/s": lambda b: self._paced(b, "paced", 20_000),
            "acknowledgement at 60 MB/s": lambda b: self._paced(b, "paced", 60_000),
            "end to end at 1,000/s": lambda b: self._paced(b, "e2e", 1000),
            "consume 1 kB": lambda b: self._consume(b, "ck", 1000, s.big // 10),
            "consume 100 B": lambda b: self._consume(b, "ch", 100, s.small // 5),
            "consume 1 kB, 2 GB": lambda b: self._consume(b, "co", 1000, s.old, 1),
        }

    def forget(self, broker: Measured) -> None:
        """Delete the topics of a test, so that the disk holds one test at a time."""
        from confluent_kafka.admin import AdminClient

        names = [name for owner, name in self._made if owner == broker.name]
        if names:
            admin = AdminClient({"bootstrap.servers": broker.address})
            for deleted in admin.delete_topics(names).values():
                deleted.result(30)
        self._made -= {(broker.name, name) for name in names}

    def _topic(self, broker: Measured, name: str, partitions: int) -> bool:
        """Make a topic once; whether it was made now."""
        from confluent_kafka.admin import AdminClient, NewTopic

        if (broker.name, name) in self._made:
            return False
        admin = AdminClient({"bootstrap.servers": broker.address})
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1)
        admin.create_topics([wanted])[name].result(20)
        time.sleep(1)  # Kafka answers before its new partitions take records
        self._made.add((broker.name, name))
        return True

    def _counted(self, broker: Measured, run: Callable[[], Figures]) -> Figures:
        before = broker.cpu_s()
        found = run()
        gigabytes = found["MB/s"] * found["secs"] / 1e3
        return found | {"broker cpu s/GB": (broker.cpu_s() - before) / gigabytes}

    def _bulk(
        self, broker: Measured, topic: str, parts: int, size: int, count: int
    ) -> Figures:
        self._topic(broker, topic, parts)
        part = 0 if parts == 1 else -1
        words = (broker.address, topic, part, size, count, "none", LINGER_MS)
        return self._counted(
            broker, lambda: tools.run(self._bin, "load", "produce", *words)
        )

    def _lines(self, broker: Measured, codec: str) -> Figures:
        topic = f"json-{codec}"
        self._topic(broker, topic, 1)
        count = self._sizes.lines
        words = (broker.address, topic, 0, self._json, count, codec, LINGER_MS)
        return self._counted(
            broker, lambda: tools.run(self._bin, "load", "lines", *words)
        )

    def _requests(self, broker: Measured, connections: int) -> Figures:
        self._topic(broker, "requests", 6)
        words = ("127.0.0.1", broker.port, "requests", 6, connections, 100, 4)
        return tools.run(self._bin, "requests", *words)

    def _paced(self, broker: Measured, mode: str, rate: int) -> Figures:
        self._topic(broker, mode, 1)
        words = (broker.address, mode, 0, 1000, rate, self._sizes.secs)
        return tools.run(self._bin, "load", mode, *words)

    def _consume(
        self, broker: Measured, topic: str, size: int, count: int, laps: int = LAPS
    ) -> Figures:
        if self._topic(broker, topic, 1):
            words = (broker.address, topic, 0, size, count, "none", LINGER_MS)
            tools.run(self._bin, "load", "produce", *words)
            broker.rest()
        words_out = (broker.address, topic, 0, count, laps)
        return self._counted(
            broker, lambda: tools.run(self._bin, "load", "consume", *words_out)
        )
