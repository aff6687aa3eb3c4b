"""A steady flow into many topics, and how long records take to stand in their tables.

``python -m infra.bench.lake_flow BROKER RATE_MB SECONDS TOPIC...`` produces (a process
of its own, so that it does not disturb who watches) and prints, for one record of each
topic every 50 ms, ``topic partition offset acknowledged_at`` by the monotonic clock.
`freshness` runs it and watches the Delta logs meanwhile.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

from infra.bench.lake_house import House

TICK_S = 0.01
PROBE_TICKS = 5
VALUE_BYTES = 1000

Marks = list[tuple[float, dict[int, int]]]
"""(when, partition -> end of the table) each time an end moved."""


def main() -> None:
    from confluent_kafka import Producer

    broker, rate_mb, seconds, *topics = sys.argv[1:]
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5, "acks": "all"})
    values = _values(Path("/dev/stdin").read_bytes())
    each = int(float(rate_mb) * 1e6 * TICK_S / VALUE_BYTES / len(topics))
    begun, tick = time.monotonic(), 0
    while tick * TICK_S < float(seconds):
        for topic in topics:
            for number in range(each):
                probe = number == 0 and tick % PROBE_TICKS == 0
                value = values[(tick * each + number) % len(values)]
                producer.produce(topic, value, on_delivery=_told if probe else None)
        producer.poll(0)
        tick += 1
        time.sleep(max(0.0, begun + tick * TICK_S - time.monotonic()))
    producer.flush(30)


def _values(text: bytes) -> list[bytes]:
    """Some JSON records in each value, about a kilobyte."""
    step = VALUE_BYTES
    return [text[at : at + step] for at in range(0, len(text) - step, step)]


def _told(error: object, message: object) -> None:
    if error is None:
        where = message.topic(), message.partition(), message.offset()  # type: ignore
        print(*where, time.monotonic())


def freshness(
    house: House, topics: list[str], json_lines: Path, rate_mb: float, seconds: float
) -> list[float]:
    """Seconds from acknowledged to in the table, of the probes; sorted."""
    watch = _Watch(house, topics)
    watch.start()
    words = [house.address, str(rate_mb), str(seconds), *topics]
    with json_lines.open("rb") as lines:
        text = lines.read(8 << 20)
    done = subprocess.run(
        [sys.executable, "-m", "infra.bench.lake_flow", *words],
        input=text, capture_output=True, check=True,
    )  # fmt: skip
    house.await_tables()
    time.sleep(0.5)
    watch.stop()
    probes = [line.split() for line in done.stdout.decode().splitlines()]
    return sorted(
        watch.seen_at(topic, int(partition), int(offset)) - float(at)
        for topic, partition, offset, at in probes
    )


class _Watch:
    """Follows the Delta logs, as any reader of the tables would."""

    def __init__(self, house: House, topics: list[str]) -> None:
        self._paths = {topic: house.data / "tables" / topic for topic in topics}
        self._marks: dict[str, Marks] = {topic: [] for topic in topics}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def seen_at(self, topic: str, partition: int, offset: int) -> float:
        for at, ends in self._marks[topic]:
            if ends.get(partition, 0) > offset:
                return at
        raise AssertionError(f"{topic}-{partition}: {offset} is in no table")

    def _run(self) -> None:
        from lakehouse import delta_log
        from lakehouse.errors import LakehouseError

        snapshots: dict[str, delta_log.Snapshot] = {}
        while not self._stop.wait(0.02):
            for topic, path in self._paths.items():
                try:
                    if topic not in snapshots:
                        snapshots[topic] = delta_log.load(str(path))
                    elif not delta_log.follow(snapshots[topic]):
                        continue
                except (LakehouseError, OSError):
                    continue
                ends = delta_log.table_ends(snapshots[topic])
                self._marks[topic].append((time.monotonic(), dict(ends)))


if __name__ == "__main__":
    main()
