"""Clients in two other languages write, read and share a topic in a group.

These run with all the other tests where the toolchain is there and its registry
answers; the whole journeys are ``make test-clients``. What must be downloaded has a
minute and is no failure when it does not come. Go is not among them: to compile a
client took longer than that beside the other tests.
"""

import shutil
from pathlib import Path

from tests.support.foreign import Client, build, fetched, toolchain
from tests.support.foreign_journey import travel_in_short

HERE = Path(__file__).parent
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAVA = ("common", "headers/with", "times/with", "poll/duration")


def test_a_client_in_node(broker, tmp_path):
    node, npm = toolchain("Node", "node"), toolchain("npm", "npm")
    for name in ("package.json", "package-lock.json", "driver.js"):
        shutil.copy(HERE / "node" / name, tmp_path)
    fetched("npm", npm, "ci", "--no-audit", "--no-fund", cwd=tmp_path)
    client = Client("KafkaJS in short", "newest", ("none", "gzip"))
    travel_in_short(broker, client, (node, str(tmp_path / "driver.js")))


def test_a_client_in_java(broker, tmp_path):
    maven, javac = toolchain("Maven", "mvn"), toolchain("JDK", "javac")
    libs, classes = tmp_path / "libs", tmp_path / "classes"
    words = ("-q", "-B", "-Dkafka.version=4.3.1", COPY, f"-DoutputDirectory={libs}")
    fetched("Maven Central", maven, *words, cwd=HERE / "java")
    files = [f for name in JAVA for f in (HERE / "java" / name).glob("*.java")]
    path = f"{classes}:{libs}/*"
    build(javac, "-d", str(classes), "-cp", path, *map(str, files), cwd=HERE)
    runner = tmp_path / "run"
    runner.write_text(
        "#!/bin/sh\n[ $1 = produce ] && class=Producing || class=Consuming\n"
        f'exec java -Xmx128m -cp "{path}" $class "$@"\n'
    )
    runner.chmod(0o755)
    travel_in_short(broker, Client("Java in short", "4.3.1", ("lz4",)), (str(runner),))
