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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from infra.bench.lake_house import House, wait_for

TICK_S = 0.01
PROBE_TICKS = 5
CAUGHT_UP_S = 300.0
VALUE_BYTES = 1000

Marks = list[tuple[float, dict[int, int]]]
"""(when, partition -> end of the table) each time an end moved."""

Look = Callable[[], Iterable[tuple[str, dict[int, int]]]]
"""The topics whose ends moved since the last look, and their ends."""

Probe = tuple[str, int, int, float]
"""Topic, partition, offset, and when it was acknowledged."""


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
                producer.produce(
                    topic, value, on_delivery=_delivered if probe else None
                )
        producer.poll(0)
        tick += 1
        time.sleep(max(0.0, begun + tick * TICK_S - time.monotonic()))
    producer.flush(30)


def _values(text: bytes) -> list[bytes]:
    """Some JSON records in each value, about a kilobyte."""
    step = VALUE_BYTES
    return [text[at : at + step] for at in range(0, len(text) - step, step)]


def _delivered(error: object, message: object) -> None:
    if error is None:
        where = message.topic(), message.partition(), message.offset()  # type: ignore
        print(*where, time.monotonic())


def flow(
    address: str, topics: list[str], json_lines: Path, rate_mb: float, seconds: float
) -> list[Probe]:
    """Produce at a pace from a process of its own; returns its probes."""
    with json_lines.open("rb") as lines:
        text = lines.read(8 << 20)
    words = [address, str(rate_mb), str(seconds), *topics]
    done = subprocess.run(
        [sys.executable, "-m", "infra.bench.lake_flow", *words],
        input=text, capture_output=True, check=True,
    )  # fmt: skip
    probes = [line.split() for line in done.stdout.decode().splitlines()]
    return [(topic, int(part), int(at), float(s)) for topic, part, at, s in probes]


def freshness(
    house: House, topics: list[str], json_lines: Path, rate_mb: float, seconds: float
) -> list[float]:
    """Seconds from acknowledged to in the table, of the probes; sorted."""
    paths = {topic: house.data / "tables" / topic for topic in topics}
    with Watch(moved_tables(paths)) as watch:
        probes = flow(house.address, topics, json_lines, rate_mb, seconds)
        watch.wait_for(probes, CAUGHT_UP_S)
    return watch.delays(probes)


def moved_tables(paths: dict[str, Path]) -> Look:
    """The ends of Lakelog's tables, of those that moved since the last look."""
    from lakehouse.errors import LakehouseError
    from lakehouse.log import delta_log

    snapshots: dict[str, delta_log.Snapshot] = {}

    def look() -> Iterator[tuple[str, dict[int, int]]]:
        for topic, path in paths.items():
            try:
                if topic not in snapshots:
                    snapshots[topic] = delta_log.load(str(path))
                elif not delta_log.follow(snapshots[topic]):
                    continue
            except (LakehouseError, OSError):
                continue
            yield topic, dict(delta_log.table_ends(snapshots[topic]))

    return look


class Watch:
    """Looks at Delta logs, as any reader of the tables would, on a thread."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._marks: dict[str, Marks] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, probes: list[Probe], timeout_s: float) -> None:
        """Return when all of them are in tables. Raises TimeoutError."""
        lasts: dict[tuple[str, int], int] = {}
        for topic, partition, offset, _ in probes:
            known = lasts.get((topic, partition), 0)
            lasts[topic, partition] = max(offset, known)
        wait_for(
            lambda: all(self._end(*where) > last for where, last in lasts.items()),
            timeout_s,
        )

    def delays(self, probes: list[Probe]) -> list[float]:
        """Seconds from acknowledged to in the table, sorted."""
        return sorted(
            self._seen_at(topic, partition, offset) - at
            for topic, partition, offset, at in probes
        )

    def _end(self, topic: str, partition: int) -> int:
        marks = self._marks.get(topic)
        return marks[-1][1].get(partition, 0) if marks else 0

    def _seen_at(self, topic: str, partition: int, offset: int) -> float:
        for at, ends in self._marks.get(topic, ()):
            if ends.get(partition, 0) > offset:
                return at
        raise AssertionError(f"{topic}-{partition}: {offset} is in no table")

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for topic, ends in self._look():
                mark = time.monotonic(), ends
                self._marks.setdefault(topic, []).append(mark)


if __name__ == "__main__":
    main()
