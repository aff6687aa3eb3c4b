"""Key compaction beside Kafka's log cleaner: one clean of the same records each.

``python -m infra.bench.key_compaction [--records N] [--keys N] [--without-kafka]``, or
``make bench ONLY=keys``. The records (an 8-byte key, 200 random bytes) are produced to
a topic of one partition that deletes; when all of them are where a clean finds them,
the topic's policy becomes ``compact``, and that clean is measured: how long it took by
its own log, the CPU seconds of the process that cleans (Kafka: its broker; here: the
compactor and its workers) and the most memory of what cleans. Neither is held to a
number of bytes a second. Then the topic is read, and what is there is compared with the
last record of each key: a clean that lost one, or kept one more, has no figure.

Kafka leaves its newest segment alone (here 64 MiB), so it has a little less to do.
Results go to ``bench-results/key-compaction.md``.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from infra.bench import brokers, tools
from infra.bench.lake_house import MEGA, House, WorkerMemory, cpu_s, wait_for

RECORDS, KEYS = 5_000_000, 500_000
VALUE_BYTES = 200
SEGMENT_BYTES = 64 << 20
CLEAN_WITHIN_S = 3600.0
TOPIC = "keyed"
_DONE = re.compile(r"([\d.,]+) MB of log processed in ([\d.,]+) seconds")
_CLEANED = re.compile(r"cleaned log keyed-0 \(dirty section = \[0, (\d+)\]\)")
_LOGGING = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%m%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
"""

console = Console()
Figures = dict[str, float]


class KafkaCleaning(brokers.Kafka):
    """Its cleaner looks each second, and cleans whatever is dirty."""

    extra = (
        "log.cleaner.backoff.ms=1000",
        f"log.segment.bytes={SEGMENT_BYTES}",
        "log.cleaner.min.cleanable.ratio=0.01",
    )

    def command(self) -> list[str]:
        """It says what it cleaned, in its log alone."""
        file = self.home / "log4j2.properties"
        file.write_text(_LOGGING)
        java, *words = super().command()
        return [java, f"-Dlog4j2.configurationFile={file}", *words]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bench.key_compaction")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    measure(
        given.out.absolute(),
        records=given.records,
        keys=given.keys,
        without_kafka=given.without_kafka,
    )


def sizes(*, quick: bool) -> tuple[int, int]:
    """Records and keys; a tenth where it must be quick."""
    return (RECORDS // 10, KEYS // 10) if quick else (RECORDS, KEYS)


def measure(out: Path, *, records: int, keys: int, without_kafka: bool = False) -> None:
    """Clean once each, and write the figures into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    found = {"Lakelog": of_lakelog(out, records, keys)}
    if not without_kafka:
        found["Kafka"] = of_kafka(out, records, keys)
    table = markdown(found, records, keys)
    (out / "key-compaction.md").write_text(table + "\n")
    console.print(table, highlight=False, soft_wrap=True)


def of_lakelog(out: Path, records: int, keys: int) -> Figures:
    """One clean of the compactor."""
    free = f"lake.merge_bytes_per_s={1 << 40}"
    # what segments still cache is read as it was produced
    house = House(out / "keyed", free, "log.format=json", "wal.cache_bytes=0")
    memory = WorkerMemory()
    house.start(compactor=False)
    try:
        bytes_of_log = _produce(out, house.address, records, keys)
        compactor = house.start_compactor()
        try:
            house.await_tables(CLEAN_WITHIN_S)
            with _compacting(house.address), memory.watch(compactor.pid):
                used = cpu_s(compactor.pid)
                done = _cleaned_by(house.home / "compactor.log")
                used = cpu_s(compactor.pid) - used
            house.await_release()
            _judge(house.address, records, keys, end=int(done["end"]))
        finally:
            compactor.terminate()
            compactor.wait(30)
    finally:
        house.stop()
    return _figures(bytes_of_log, done["ms"] / 1e3, used, memory.all)


def of_kafka(out: Path, records: int, keys: int) -> Figures:
    """One clean of Kafka's cleaner, of all but the newest segment."""
    jars = brokers.collect_jars(out / "kafka")
    kafka = KafkaCleaning(out / "keyed-kafka", jars)
    kafka.start()
    try:
        _produce(out, kafka.address, records, keys)
        with _compacting(kafka.address):
            used = kafka.cpu_s()
            wait_for(lambda: _said_by(kafka) is not None, CLEAN_WITHIN_S, 0.2)
            used = kafka.cpu_s() - used
        said = _said_by(kafka)
        assert said is not None, "it was there"
        end, mb, took = said
        _judge(kafka.address, records, keys, end=int(end))
        return _figures(mb * (1 << 20), took, used, kafka.resident_mb())
    finally:
        kafka.stop()


def _figures(log_bytes: float, took_s: float, used_s: float, mb: float) -> Figures:
    return {
        "clean, s": took_s,
        "log MB/s": log_bytes / MEGA / took_s,
        "CPU s per GB of log": used_s / (log_bytes / 1e9),
        "memory MB": mb,
    }


def _produce(out: Path, address: str, records: int, keys: int) -> float:
    """The bytes of keys and values."""
    _make_topic(address)
    words = (address, TOPIC, 0, VALUE_BYTES, records, keys, "none", 5)
    tools.run(out, "load", "keyed", *words, timeout_s=3600)
    return float(records) * (VALUE_BYTES + 8)


def _make_topic(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=1)
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([topic])[TOPIC].result(20)


@contextmanager
def _compacting(address: str) -> Iterator[None]:
    """The topic's policy is ``compact`` from here on."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    entries = [
        ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
        for name, text in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(20)
    yield


def _cleaned_by(log: Path) -> dict[str, float]:
    """What the compactor says of the clean when it is done."""

    def said() -> list[dict[str, float]]:
        lines = (json.loads(t) for t in log.read_text().splitlines() if t[:1] == "{")
        return [line for line in lines if line.get("event") == "cleaned"]

    wait_for(lambda: bool(said()), CLEAN_WITHIN_S, 0.2)
    return said()[0]


def _said_by(kafka: brokers.Kafka) -> tuple[float, ...] | None:
    """Where its first clean ended, MiB of log, and seconds."""
    text = (kafka.home / "log").read_text(errors="replace")
    cleaned = _CLEANED.search(text)
    done = _DONE.search(text, cleaned.end()) if cleaned else None
    if cleaned is None or done is None:
        return None
    words = (*cleaned.groups(), *done.groups())
    return tuple(float(word.replace(",", "")) for word in words)


def _judge(address: str, records: int, keys: int, *, end: int) -> None:
    """Below ``end`` the last record of each key that it has there, and no other; from
    there on all."""
    wanted = np.append(last_offsets(end, keys), np.arange(end, records))
    found = _read(address, records)
    missing = np.setdiff1d(wanted, found, assume_unique=True)
    more = np.setdiff1d(found, wanted, assume_unique=True)
    assert not len(missing), f"{len(missing)} last records are gone: {missing[:5]}"
    assert not len(more), f"{len(more)} records were left: {more[:5]}"


def last_offsets(records: int, keys: int) -> NDArray[np.int64]:
    """Where each key is last, ascending; `keyed` in ``load.c`` makes the same keys."""
    latest = np.full(keys, -1, np.int64)
    for begin in range(0, records, 1 << 22):
        at = np.arange(begin, min(records, begin + (1 << 22)), dtype=np.uint64)
        latest[_mixed(at) % np.uint64(keys)] = at.astype(np.int64)
    return np.sort(latest[latest >= 0])


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64; numbers go round."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _read(address: str, records: int) -> NDArray[np.int64]:
    """The offsets that a consumer is given, ascending."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "judge"}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[int] = []
    deadline = time.monotonic() + CLEAN_WITHIN_S
    while time.monotonic() < deadline:
        messages = consumer.consume(10_000, 1.0)
        found += [m.offset() for m in messages if m.error() is None]
        if any(m.error() is not None for m in messages):
            break
    consumer.close()
    assert found[-1:] == [records - 1], "it was not read to its end"
    return np.array(found, np.int64)


def markdown(found: dict[str, Figures], records: int, keys: int) -> str:
    head = f"| {records:,} records, {keys:,} keys | " + " | ".join(found) + " |"
    rows = [head, "|---" * (1 + len(found)) + "|"]
    for name in next(iter(found.values())):
        cells = (f"{figures[name]:,.3g}" for figures in found.values())
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
