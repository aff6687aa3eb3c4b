"""Apache Kafka's own clients of ten releases, each compiled against its own jars."""

from pathlib import Path

import pytest

from tests.support.foreign import Client, Site, build, toolchain
from tests.support.foreign_journey import travel

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).parent / "java"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
NAME = "kafka-clients (Java)"
OLD = ("none", "gzip", "snappy", "lz4")
ALL = (*OLD, "zstd")
BARE = frozenset({"headers", "transactions"})
PRODUCER_ALONE = BARE | {"start", "time", "group"}

CLIENTS = [
    Client(NAME, "0.8.2.2", OLD, PRODUCER_ALONE),
    Client(NAME, "0.9.0.1", OLD, BARE | {"time"}),
    Client(NAME, "0.10.0.1", OLD, BARE | {"time"}),
    Client(NAME, "0.10.2.2", OLD, BARE),
    Client(NAME, "0.11.0.3", OLD),
    Client(NAME, "1.1.1", OLD),
    Client(NAME, "2.0.1", OLD),
    Client(NAME, "2.8.2", ALL),
    Client(NAME, "3.9.1", ALL),
    Client(NAME, "4.3.1", ALL),
]
ZOOKEEPER = BARE | {"time", "group"}
"""Where groups lived."""
SCALA = [
    Client("kafka (Scala)", "0.8.1.1", OLD[:2], ZOOKEEPER),  # no snappy since Java 16
    Client("kafka (Scala)", "0.8.2.2", OLD, ZOOKEEPER),
    Client("kafka (Scala)", "0.9.0.1", OLD, ZOOKEEPER),
    Client("kafka (Scala)", "0.10.2.2", OLD, ZOOKEEPER),
]


def sources(client: Client) -> list[Path]:
    """The files that this release can be compiled with."""
    headers = "without" if "headers" in client.lacks else "with"
    if "start" in client.lacks:
        names = ["common/Lines", "common/Producing", f"headers/{headers}/Produced"]
        return [SOURCES / f"{name}.java" for name in names]
    times = "without" if "time" in client.lacks else "with"
    poll = "long" if client.version.split(".")[0] in "01" else "duration"
    folders = ["common", f"headers/{headers}", f"times/{times}", f"poll/{poll}"]
    return [path for name in folders for path in (SOURCES / name).glob("*.java")]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_kafka_clients_make_the_journey(
    site: Site, tmp_path: Path, client: Client
) -> None:
    _travel(site, tmp_path, client, SOURCES, sources(client))


@pytest.mark.parametrize("client", SCALA, ids=str)
def test_the_clients_before_them_make_the_journey(
    site: Site, tmp_path: Path, client: Client
) -> None:
    """The producer that was written in Scala, and SimpleConsumer."""
    names = ["common/Lines", "scala/Producing", "scala/Consuming"]
    files = [SOURCES / f"{name}.java" for name in names]
    _travel(site, tmp_path, client, SOURCES / "scala", files)


def _travel(
    site: Site, tmp_path: Path, client: Client, pom: Path, files: list[Path]
) -> None:
    maven, javac = toolchain("Maven", "mvn"), toolchain("JDK", "javac")
    version = f"-Dkafka.version={client.version}"
    to = f"-DoutputDirectory={tmp_path}/libs"
    build(maven, "-q", "-B", version, COPY, to, cwd=pom)
    path = f"{tmp_path}/classes:{tmp_path}/libs/*"
    words = ("-d", f"{tmp_path}/classes", "-cp", path, *map(str, files))
    build(javac, *words, cwd=SOURCES)
    runner = tmp_path / "run"
    runner.write_text(
        "#!/bin/sh\n[ $1 = produce ] && class=Producing || class=Consuming\n"
        f'exec java -Xmx128m -cp "{path}" $class "$@"\n'
    )
    runner.chmod(0o755)
    travel(site, client, (str(runner),))
