"""What the admin plane costs the broker: produce with and without fifty reads a second.

``python -m infra.bench.plane [--pairs 3] [--records 1200000]``; no part of ``make
bench``. A broker without a compactor and its plane; bulk producing alone and with reads
of all sorts take turns, each pair in the other order. The median of the pairs' ratios
counts, and that of the broker's processor time. Client, plane and broker share the
machine: where all cores work, what the plane takes is lost to the producer. Then 10,000
topics are made and listed.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from infra.bench import brokers, tools

console = Console()

RATE = 50
"""Reads a second."""
TOPICS = 10_000
AT_ONCE = 1_000
"""Topics that a request makes."""
TOPIC, QUIET, GROUP = "bulk", "quiet", "readers"
"""Who reads the last records of a topic costs what its consumer costs, and its batches
are large under bulk load: so those of another topic are read, unless it is said."""


class Plane:
    """The admin plane as a process beside a broker."""

    def __init__(self, broker: brokers.Measured, shown: str = QUIET) -> None:
        self._shown = shown
        data_dir = str(broker.home / "data")
        words = ["--data-dir", data_dir, "--bootstrap", broker.address]
        words += ["--admin", "127.0.0.1:0"]
        with (broker.home / "admin.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker.cli", "admin", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self.url = said.split("admin=")[1].split()[0]
        [cluster] = self.get("/v3/clusters")["data"]
        self.cluster = f"/v3/clusters/{cluster['cluster_id']}"

    def get(self, path: str) -> Any:
        """The JSON of an answer. Raises HTTPError for any but 200."""
        with urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def cpu_s(self) -> float:
        return brokers.processor_s(self._process.pid)

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=30)

    def reads(self) -> tuple[str, ...]:
        """Paths of all sorts, none of them large."""
        topic, group = f"/topics/{TOPIC}", f"/consumer-groups/{GROUP}"
        below = ("", "/topics?page_size=50", topic, f"{topic}/configs",
                 f"{topic}/partitions/0/offset", "/brokers", "/consumer-groups",
                 f"{group}/lags")  # fmt: skip
        own = ("/v1/health", f"/v1/topics/{self._shown}/records?last=10")
        return (*(self.cluster + path for path in below), *own)


class Run(NamedTuple):
    """A run of the producer, and the reads that were answered meanwhile."""

    mb_s: float
    secs: float
    broker_cpu_s: float
    plane_cpu_s: float
    reads: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bench.plane")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_200_000, help="of 1 kB, a run")
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument(
        "--same-topic", action="store_true", help="read records of what is produced to"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    shown = TOPIC if given.same_topic else QUIET
    measure(given.out.absolute(), given.pairs, given.records, given.topics, shown)


def measure(
    out: Path, pairs: int, records: int, topics: int, shown: str = QUIET
) -> dict[str, float]:
    """The figures by their names, which are shown as well."""
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    broker = brokers.LakelogAlone(out / "plane-lakelog")
    broker.start()
    try:
        make_topics(broker.address, [TOPIC, QUIET], 6)
        _prepare(broker.address)
        plane = Plane(broker, shown)
        return _measure(out, broker, plane, pairs, records, topics)
    finally:
        broker.stop()


def _measure(
    out: Path,
    broker: brokers.Measured,
    plane: Plane,
    pairs: int,
    records: int,
    topics: int,
) -> dict[str, float]:
    try:
        _produce(out, broker, plane, records, 0)  # warm
        runs = [_pair(out, broker, plane, records, n % 2 == 1) for n in range(pairs)]
        found = compared(runs)
        make_topics(broker.address, [f"topic-{n:05}" for n in range(topics)], 1)
        found |= listed(plane, broker, topics)
    finally:
        plane.stop()
    console.print(found | {"load": os.getloadavg()[0]})
    return found


def _pair(
    out: Path, broker: brokers.Measured, plane: Plane, records: int, is_swapped: bool
) -> tuple[Run, Run]:
    """A run without reads, and one with them, in either order."""
    rates = (RATE, 0) if is_swapped else (0, RATE)
    by_rate = {rate: _produce(out, broker, plane, records, rate) for rate in rates}
    for rate, run in by_rate.items():
        console.print(f"{rate} reads/s: {run}", highlight=False)
    return by_rate[0], by_rate[RATE]


def compared(pairs: list[tuple[Run, Run]]) -> dict[str, float]:
    """Medians of the pairs' ratios and differences."""
    return {
        "MB/s alone": median(alone.mb_s for alone, _ in pairs),
        "MB/s with reads": median(read.mb_s for _, read in pairs),
        "of it alone": median(read.mb_s / alone.mb_s for alone, read in pairs),
        "broker cpu of it alone": median(
            read.broker_cpu_s / alone.broker_cpu_s for alone, read in pairs
        ),
        "reads/s": median(read.reads / read.secs for _, read in pairs),
        "plane cpu ms a read": median(
            1e3 * read.plane_cpu_s / read.reads for _, read in pairs
        ),
    }


def listed(plane: Plane, broker: brokers.Measured, topics: int) -> dict[str, float]:
    """The best of five whole lists: seconds, and processor time of both parts."""
    best_s = best_cpu_s = float("inf")
    for _ in range(5):
        cpu_s, began = plane.cpu_s() + broker.cpu_s(), time.monotonic()
        found = plane.get(f"{plane.cluster}/topics")["data"]
        best_s = min(best_s, time.monotonic() - began)
        best_cpu_s = min(best_cpu_s, plane.cpu_s() + broker.cpu_s() - cpu_s)
        assert len(found) >= topics
    return {"list s": best_s, "list cpu s": best_cpu_s}


def make_topics(address: str, names: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for first in range(0, len(names), AT_ONCE):
        wanted = [NewTopic(n, partitions) for n in names[first : first + AT_ONCE]]
        for made in admin.create_topics(wanted, operation_timeout=60).values():
            made.result(60)


def _prepare(address: str) -> None:
    """A few records, and a group that has committed for each partition."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": address})
    for number in range(60):
        producer.produce(QUIET, b"%d" % number, partition=number % 6)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    offsets = [TopicPartition(TOPIC, n, 0) for n in range(6)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _produce(
    out: Path, broker: brokers.Measured, plane: Plane, records: int, rate: int
) -> Run:
    words = (broker.address, TOPIC, -1, 1000, records, "none", 5)
    before, plane_before = broker.cpu_s(), plane.cpu_s()
    with reading(plane, rate) as answered:
        found = tools.run(out, "load", "produce", *words)
        reads = len(answered)
    used = broker.cpu_s() - before, plane.cpu_s() - plane_before
    return Run(found["MB/s"], found["secs"], *used, reads)


@contextmanager
def reading(plane: Plane, rate: int) -> Iterator[list[int]]:
    """Ask for ``plane.reads()`` in turn, so many a second, by four clients."""
    answered: list[int] = []
    over = threading.Event()
    clients = [
        threading.Thread(target=_read, args=(plane, rate / 4, answered, over))
        for _ in range(4 if rate else 0)
    ]
    for client in clients:
        client.start()
    try:
        yield answered
    finally:
        over.set()
        for client in clients:
            client.join()


def _read(
    plane: Plane, rate: float, answered: list[int], over: threading.Event
) -> None:
    began, paths = time.monotonic(), plane.reads()
    number = 0
    while not over.wait(max(0.0, began + number / rate - time.monotonic())):
        plane.get(paths[number % len(paths)])
        answered.append(number)
        number += 1


if __name__ == "__main__":
    main()
