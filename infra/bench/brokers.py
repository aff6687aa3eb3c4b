"""The brokers that are measured, started and stopped alike."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

HERE = Path(__file__).parent
HEAP = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
START_TIMEOUT_S = 300.0  # Kafka reads its whole log after a kill

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.segment.delete.delay.ms=1000
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_s(pid: int) -> float:
    """Seconds that all threads of a process have computed, to the nanosecond: what is
    summed up in /proc counts in hundredths, and a short run took none.

    The clock is that of clock_getcpuclockid(3), as Linux numbers it.
    """
    return time.clock_gettime(~pid << 3 | 2)


class Measured:
    """A broker as a process: its address, its start, what it used."""

    name = ""
    works_behind = False
    """Whether something goes on after a producer was answered."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_s = 0.0
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        started = time.monotonic()
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._await_metadata(started + START_TIMEOUT_S)
        self.ready_s = time.monotonic() - started

    def _await_metadata(self, deadline: float) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    pass
                client = AdminClient(
                    {"bootstrap.servers": self.address, "log_level": 0}
                )
                if client.list_topics(timeout=5).brokers:
                    return
            except (OSError, KafkaException):
                time.sleep(0.02)
        raise RuntimeError(f"{self.name} did not start: see {self.home / 'log'}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def takes(self, test: str) -> bool:
        """Whether the test shows anything of this one that others do not show."""
        return True

    def rest(self) -> None:
        """Return when nothing goes on any more that others would feel."""

    def _broker(self) -> psutil.Process:
        assert self.process is not None
        return psutil.Process(self.process.pid)

    def cpu_s(self) -> float:
        """Of the broker itself."""
        assert self.process is not None
        return processor_s(self.process.pid)

    def resident_mb(self) -> float:
        return float(self._broker().memory_info().rss / 1e6)


class Kafka(Measured):
    """Apache Kafka, one KRaft node, its jars from Maven Central."""

    name = "Kafka"
    extra: tuple[str, ...] = ()

    def __init__(self, home: Path, jars: Path) -> None:
        super().__init__(home)
        self._class_path = f"{jars}/*"
        properties = PROPERTIES.format(
            port=self.port, controller=free_port(), data=home / "data"
        )
        self._file = home / "server.properties"
        self._file.write_text(properties + "\n".join(self.extra) + "\n")
        self._format()

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*self._java("-Xmx256M"), "kafka.tools.StorageTool", "format"]
        # one word: an id may begin with a dash
        words = ["--standalone", f"--cluster-id={cluster}", "-c", str(self._file)]
        subprocess.run([*tool, *words], check=True, capture_output=True)

    def _java(self, *flags: str) -> list[str]:
        return ["java", *flags, "-cp", self._class_path]

    def command(self) -> list[str]:
        return [*self._java(*HEAP), "kafka.Kafka", str(self._file)]


class KafkaSynced(Kafka):
    """Apache Kafka with an fsync for each append."""

    name = "Kafka, fsync"
    extra = ("log.flush.interval.messages=1",)


class LakelogAlone(Measured):
    """A Lakelog broker without a compactor: an fsync before each acknowledgement."""

    name = "Lakelog, no compactor"
    settings: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return self._lakelog("broker")

    def _lakelog(self, *command: str) -> list[str]:
        words = ["--data-dir", str(self.home / "data"), "--listener", self.address]
        words += [word for item in self.settings for word in ("-X", item)]
        return [sys.executable, "-m", "broker.cli", *command, *words]


class LakelogInterval(LakelogAlone):
    """One that syncs each 100 ms, as Kafka leaves it to the system: the relaxed mode.

    It has no compactor either, so what is beside it is :class:`LakelogAlone`.
    """

    name = "Lakelog, interval"
    settings = ("wal.sync=interval",)

    def takes(self, test: str) -> bool:
        """What is read is read alike, whenever it was synced."""
        return not test.startswith("consume")


class Lakelog(LakelogAlone):
    """Lakelog as it comes: a broker and a compactor that follows it."""

    name = "Lakelog"
    works_behind = True

    def command(self) -> list[str]:
        return self._lakelog("up", "--no-admin")

    def rest(self) -> None:
        """Until everything stands in tables."""
        words = ["--data-dir", str(self.home / "data"), "--timeout", "900"]
        tool = [sys.executable, "-m", "broker.cli", "compact", *words]
        subprocess.run(tool, check=True, capture_output=True)

    def kill(self) -> None:
        """kill -9 of the broker; ``up`` follows it."""
        self._broker().kill()
        assert self.process is not None
        self.process.wait(30)

    def _broker(self) -> psutil.Process:
        status = json.loads((self.home / "data" / "run" / "broker.json").read_bytes())
        return psutil.Process(status["pid"])


def collect_jars(home: Path, pom: str = "pom.xml") -> Path:
    """Fetch the jars that a POM of this folder names, once; returns their folder."""
    jars = home / "libs"
    if not jars.exists():
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / pom, home / "pom.xml")
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
        goal = f"{plugin}:copy-dependencies"
        subprocess.run(
            ["mvn", "-q", "-B", goal, "-DoutputDirectory=libs"],
            cwd=home,
            check=True,
            env=os.environ,
        )
    return jars
