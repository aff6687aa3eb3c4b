"""Topics that are tables, beside Kafka and Spark's Kafka source writing Delta.

``python -m infra.bench.pipelines``, and the end of ``make bench``. The same records at
the same pace into ten topics, on the same cores, once each way. What counts is the
whole of it: CPU seconds a GB of all processes that are not the client, how long records
take from acknowledged to in the table, and bytes on disk, logs included.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from infra.bench import brokers, tools
from infra.bench.lake_flow import CAUGHT_UP_S, Look, Watch, flow, moved_tables
from infra.bench.lake_house import House, cpu_s, wait_for
from infra.bench.records import write_json_lines

console = Console()

RATE_MB = 20.0
TOPICS = [f"flow-{number}" for number in range(10)]

Row = tuple[str, str, float]
"""Pipeline, figure, value."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bench.pipelines")
    parser.add_argument("--quick", action="store_true", help="a third of the time")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    measure(given.out.absolute(), quick=given.quick)


def measure(out: Path, *, quick: bool = False) -> None:
    """Run both and write the table into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    lines = write_json_lines(out / "records.json", 1_000_000)
    seconds = 20.0 if quick else 60.0
    rows = [*_lakelog(out, lines, seconds), *_kafka_and_spark(out, lines, seconds)]
    for pipeline, figure, value in rows:
        console.print(f"{pipeline} | {figure}: {value:.3g}", highlight=False)
    (out / "pipelines.md").write_text(markdown(rows) + "\n")


def markdown(rows: list[Row]) -> str:
    """A row for each figure, a column for each pipeline, and the ratio."""
    by_name: dict[str, dict[str, float]] = {}
    for pipeline, figure, value in rows:
        by_name.setdefault(figure, {})[pipeline] = value
    ours, theirs = dict.fromkeys(pipeline for pipeline, _, _ in rows)
    lines = [f"| figure | {ours} | {theirs} | times as much |", "|---|---|---|---|"]
    for figure, found in by_name.items():
        values = found[ours], found[theirs], found[theirs] / found[ours]
        lines.append(f"| {figure} | " + " | ".join(f"{v:.3g}" for v in values) + " |")
    return "\n".join(lines)


def _lakelog(out: Path, lines: Path, seconds: float) -> list[Row]:
    house = House(out / "pipeline-lakelog")
    house.start()
    try:
        for topic in TOPICS:
            house.make_topic(topic, 1)
        pids = [house.pid("broker"), house.pid("compactor")]
        found = _measured(
            "Lakelog", house.address, pids, lines, seconds,
            moved_tables({t: house.data / "tables" / t for t in TOPICS}), house.data,
        )  # fmt: skip
    finally:
        house.stop()
    shutil.rmtree(house.home, ignore_errors=True)
    return found


def _kafka_and_spark(out: Path, lines: Path, seconds: float) -> list[Row]:
    kafka = brokers.Kafka(out / "pipeline-kafka", brokers.collect_jars(out / "kafka"))
    table = kafka.home / "table"
    kafka.start()
    spark = None
    try:
        _make_topics(kafka.address)
        jars = brokers.collect_jars(out / "spark-kafka", "spark-kafka.xml")
        spark = _start_spark(jars, kafka, table)
        assert kafka.process is not None
        found = _measured(
            "Kafka and Spark", kafka.address, [kafka.process.pid, spark.pid],
            lines, seconds, moved_stream(table), kafka.home,
        )  # fmt: skip
    finally:
        if spark is not None:
            spark.kill()
            spark.wait()
        kafka.stop()
    shutil.rmtree(kafka.home, ignore_errors=True)
    return found


def _make_topics(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    wanted = [NewTopic(name, 1, 1) for name in TOPICS]
    for made in admin.create_topics(wanted).values():
        made.result(30)


def _start_spark(
    jars: Path, kafka: brokers.Kafka, table: Path
) -> "subprocess.Popen[bytes]":
    """The stream, behind a record in each topic that makes it warm."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.address})
    for topic in TOPICS:
        producer.produce(topic, b"first")
    producer.flush(30)
    log = kafka.home / "spark.log"
    checkpoint = kafka.home / "checkpoint"
    words = [str(jars), kafka.address, str(table), str(checkpoint), *TOPICS]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.bench.kafka_to_delta", *words],
            stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    ready = lambda: b"ready\n" in log.read_bytes()  # noqa: E731
    wait_for(lambda: ready() or process.poll() is not None, 240)
    assert ready(), f"the stream did not start: see {log}"
    return process


def _measured(
    name: str,
    address: str,
    pids: list[int],
    lines: Path,
    seconds: float,
    look: Look,
    home: Path,
) -> list[Row]:
    """Let records flow, first to warm up; what they cost, when they are in tables."""
    with Watch(look) as watch:
        warm_up = flow(address, TOPICS, lines, RATE_MB, seconds / 3)
        watch.wait_for(warm_up, CAUGHT_UP_S)
        before, used = _bytes_in(home), sum(map(cpu_s, pids))
        probes = flow(address, TOPICS, lines, RATE_MB, seconds)
        watch.wait_for(probes, CAUGHT_UP_S)
    used = sum(map(cpu_s, pids)) - used
    gigabytes = RATE_MB * seconds / 1e3
    late = watch.delays(probes)
    memory = sum(
        member.memory_full_info().pss
        for pid in pids
        for member in [psutil.Process(pid), *psutil.Process(pid).children(True)]
    )
    return [
        (name, "CPU seconds a GB, all processes", used / gigabytes),
        (name, "acknowledged to in the table, p50 s", late[len(late) // 2]),
        (name, "acknowledged to in the table, p99 s", late[len(late) * 99 // 100]),
        (name, "bytes on disk per byte", (_bytes_in(home) - before) / gigabytes / 1e9),
        (name, "memory of all processes, MB", memory / 1e6),
    ]


def _bytes_in(home: Path) -> int:
    """Blocks that are really used: preallocated files have holes."""
    used = 0
    for file in home.rglob("*"):
        try:
            used += file.stat().st_blocks * 512 if file.is_file() else 0
        except FileNotFoundError:
            continue
    return used


def moved_stream(table: Path) -> Look:
    """The ends of each topic in the one table that the stream writes."""
    ends: dict[str, dict[int, int]] = {}
    version = 0

    def look() -> Iterator[tuple[str, dict[int, int]]]:
        nonlocal version
        while (file := table / "_delta_log" / f"{version:020}.json").exists():
            version += 1
            for line in file.read_text().splitlines():
                added = json.loads(line).get("add")
                if added:
                    _raise_end(ends, added)
            yield from ((topic, dict(found)) for topic, found in ends.items())

    return look


def _raise_end(ends: dict[str, dict[int, int]], added: dict[str, Any]) -> None:
    topic, partition = (added["partitionValues"][k] for k in ("topic", "partition"))
    end = json.loads(added["stats"])["maxValues"]["offset"] + 1
    of_topic = ends.setdefault(topic, {})
    of_topic[int(partition)] = max(of_topic.get(int(partition), 0), end)


if __name__ == "__main__":
    main()
