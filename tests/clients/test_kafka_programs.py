"""Kafka Streams and Kafka Connect of 4.3.1, across a kill of the broker."""

import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import PROGRAMS
from tests.support.confluent import create, produce_all
from tests.support.foreign import Driver, Site, build, toolchain
from tests.support.foreign_rows import program_row
from tests.support.patience import IDLE_S, Patience
from tests.support.readers import consumed

pytestmark = pytest.mark.foreign

LINES = [b"tea for two", b"two for tea", b"me for you", b"you for me"]
ROUND = {"tea": 2, "for": 4, "two": 2, "me": 2, "you": 2}
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "key.converter": STRING,
    "value.converter": STRING,
    "offset.flush.interval.ms": "500",
    "listeners": "http://127.0.0.1:0",
}


def fill(site: Site, topic: str) -> None:
    rows = [(None, line, None, n % 2) for n, line in enumerate(LINES)]
    produce_all(site.bootstrap, topic, rows)


def counts(site: Site, topic: str) -> dict[str, list[int]]:
    """What was told of each word, in its order."""
    told = defaultdict(list)
    for row in sorted(consumed(site.bootstrap, topic, 2), key=lambda row: row[:2]):
        told[row[4].decode()].append(int(row[5]))
    return told


def reach(site: Site, topic: str, rounds: int) -> None:
    """Until each word was counted so often."""
    patience = Patience()
    while True:
        seen = counts(site, topic)
        last = {word: max(seen.get(word, [0])) for word in ROUND}
        if all(last[word] >= often * rounds for word, often in ROUND.items()):
            return
        assert patience.lasts(last), f"{last} after {rounds} rounds"
        time.sleep(0.2)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams_count_words(
    site: Site, programs: str, tmp_path: Path, guarantee: str
) -> None:
    """The second life restores its state from a changelog that stands in its table."""
    start, end = f"lines-{guarantee}", f"counts-{guarantee}"
    create(site.bootstrap, start, 2)
    create(site.bootstrap, end, 2)
    source = str(PROGRAMS / "WordCount.java")
    javac = toolchain("JDK", "javac")
    build(javac, "-d", str(tmp_path), "-cp", programs, source, cwd=PROGRAMS)

    def count(life: str) -> Driver:
        words = (site.bootstrap, start, end, guarantee, str(tmp_path / life))
        classes = f"{tmp_path}:{programs}"
        return Driver("java", "-Xmx256m", "-cp", classes, "WordCount", *words)

    with program_row("Kafka Streams 4.3.1", f"word count, {guarantee}"):
        with count("first") as streams:
            fill(site, start)
            reach(site, end, 1)
            site.restart()
            fill(site, start)
            reach(site, end, 2)
            streams.close()
        admin = AdminClient({"bootstrap.servers": site.bootstrap})
        found = admin.list_topics(timeout=IDLE_S).topics
        ours = [topic for topic in found if topic.startswith((start, end))]
        assert len(ours) == 4, ours  # two of its own: changelog and repartition
        site.release(ours)
        with count("second") as streams:
            fill(site, start)
            reach(site, end, 3)
            streams.close()
        if guarantee != "at_least_once":
            every = {word: list(range(1, 3 * n + 1)) for word, n in ROUND.items()}
            assert counts(site, end) == every


def properties(path: Path, **config: object) -> str:
    """The name of a file of properties; ``_`` stands for a dot."""
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in config.items()]
    path.write_text("".join(lines))
    return str(path)


def test_connect_copies_a_file(site: Site, programs: str, tmp_path: Path) -> None:
    """Source and sink in one standalone worker; nothing missed, in order."""
    topic = "connect-lines"
    create(site.bootstrap, topic)
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    files = [
        properties(
            tmp_path / "worker.properties",
            bootstrap_servers=site.bootstrap,
            offset_storage_file_filename=tmp_path / "offsets",
            **WORKER,
        ),
        properties(
            tmp_path / "source.properties",
            name="source",
            connector_class="FileStreamSource",
            file=source,
            topic=topic,
        ),
        properties(
            tmp_path / "sink.properties",
            name="sink",
            connector_class="FileStreamSink",
            file=sink,
            topics=topic,
        ),
    ]
    written: list[str] = []

    def append() -> None:
        more = [f"line {len(written) + n}" for n in range(50)]
        written.extend(more)
        with source.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))

    def copied() -> bool:
        there = sink.read_text().splitlines() if sink.exists() else []
        return list(dict.fromkeys(there)) == written  # a sink may say a line again

    append()
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    with (
        program_row("Kafka Connect 4.3.1", "standalone, a file to a topic to a file"),
        Driver("java", "-Xmx256m", "-cp", programs, main, *files) as worker,
    ):
        worker.wait(copied)
        site.restart()
        append()
        worker.wait(copied)
        site.release([topic])
        append()
        worker.wait(copied)
