"""The story with participants that speak version 2 of transactions: Kafka's own.

librdkafka has version 1 alone. Java's producers and processors (``java/``) write the
same lines, die at the same points, and take turns with librdkafka's: each life of a
slot speaks one version or the other, under the slot's one transactional id.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.crash.house import SMALL, House
from tests.semantics.consumers import SESSION_MS
from tests.semantics.relay import GIVEN_UP_MS, Relay, RelayedBroker
from tests.semantics.story import WITH_IDS, Cast, Story
from tests.support.foreign import build, toolchain

VERSION = "4.3.1"
SOURCES = Path(__file__).parent / "java"
POM = Path(__file__).parents[1] / "clients" / "java"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FLAGS = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Small, and soon there."""
FIRST_OF_LIVES = 0.2
"""Version 1's share of the lives."""


@dataclass(frozen=True)
class Java:
    """The compiled participants."""

    path: str

    @classmethod
    def compiled(cls, directory: Path) -> "Java":
        """Skips the test where there is no Maven or no JDK."""
        maven, javac = toolchain("Maven", "mvn"), toolchain("JDK", "javac")
        to = f"-DoutputDirectory={directory}/libs"
        build(maven, "-q", "-B", f"-Dkafka.version={VERSION}", COPY, to, cwd=POM)
        path = f"{directory}/classes:{directory}/libs/*"
        files = [str(file) for file in SOURCES.glob("*.java")]
        build(javac, "-d", f"{directory}/classes", "-cp", path, *files, cwd=SOURCES)
        return cls(path)

    def command(self, **plan: Any) -> list[str]:
        words = [f"{name}={value}" for name, value in plan.items()]
        return ["java", *FLAGS, "-cp", self.path, "Participants", *words]


class JavaStory(Story):
    """A story whose transactions are of version 2, most of them; over a relay."""

    cast: ClassVar[Cast] = (
        ("writer", "w"),
        ("transactor", "t"), ("transactor", "t"),
        ("processor", "p"), ("processor", "p"),
        ("member", "m"), ("readers", "r"),
    )  # fmt: skip

    def __init__(
        self, java: Java, directory: Path, seed: int, seconds: float, kills: int,
        *, late: float = 0.0, defect: str = "",
    ) -> None:  # fmt: skip
        (directory / "histories").mkdir()
        settings = (*SMALL, f"groups.min_session_timeout_ms={SESSION_MS}")
        house = House(directory / "data", settings=settings)
        self.java, self.relay = java, Relay(late)
        self.broker = RelayedBroker(house.data_dir, self.relay, *settings)
        if defect:
            self.broker.program = ["tests.semantics.altered", defect]
        house.broker = self.broker
        super().__init__(house, directory / "histories", seed, seconds, kills)

    def tell(self) -> None:
        try:
            super().tell()
        finally:
            self.broker.end()
            self.house.end()
            self.relay.close()

    def _command(self, plan: dict[str, Any]) -> list[str]:
        chance = random.Random(f"version {plan['seed']} {plan['name']}")
        is_first = chance.random() < FIRST_OF_LIVES
        if plan["kind"] not in WITH_IDS or is_first:
            return super()._command(plan)
        return self.java.command(**plan, request_ms=GIVEN_UP_MS, session_ms=SESSION_MS)
