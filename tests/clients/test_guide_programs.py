"""The guide's programs in other languages, and Kafka's own tool, as they stand there.

Each is built in a project of its own by its language's tool, with the library that the
guide names; only the broker's address is another one.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.foreign import build, toolchain
from tests.support.guide import blocks
from tests.support.patience import STUCK_S
from tests.support.process import BrokerPart
from tests.support.readers import consumed

pytestmark = pytest.mark.foreign

HERE = Path(__file__).parent
CODE = {block.language: block.code for block in blocks() if "foreign" in block.marks}
FRANZ, RDKAFKA = "github.com/twmb/franz-go/pkg/kgo@v1.22.2", "rdkafka@0.39"


def of_java(place: Path, code: str, class_path: str) -> list[str]:
    javac = toolchain("JDK", "javac")
    (place / "Orders.java").write_text(code)
    build(javac, "-cp", class_path, "Orders.java", cwd=place)
    return ["java", "-Xmx128m", "-cp", f"{class_path}:{place}", "Orders"]


def of_go(place: Path, code: str, _: str) -> list[str]:
    go = toolchain("Go", "go")
    (place / "main.go").write_text(code)
    build(go, "mod", "init", "orders", cwd=place)
    build(go, "get", FRANZ, cwd=place)
    build(go, "build", "-o", "orders", ".", cwd=place)
    return [str(place / "orders")]


def of_node(place: Path, code: str, _: str) -> list[str]:
    node, npm = toolchain("Node", "node"), toolchain("npm", "npm")
    (place / "orders.js").write_text(code)
    build(npm, "install", "--no-audit", "--no-fund", "kafkajs@2.2.4", cwd=place)
    return [node, "orders.js"]


def of_rust(place: Path, code: str, _: str) -> list[str]:
    cargo = toolchain("Rust", "cargo")
    build(cargo, "init", "--name", "orders", cwd=place)
    build(cargo, "add", RDKAFKA, cwd=place)
    build(cargo, "add", "tokio", "--features", "full", cwd=place)
    (place / "src" / "main.rs").write_text(code)
    build(cargo, "build", cwd=place)
    return [str(place / "target" / "debug" / "orders")]


def of_kafka(place: Path, code: str, class_path: str) -> list[str]:
    tool = f'kafka-configs() {{ java -cp "{class_path}" kafka.admin.ConfigCommand "$@"'
    (place / "typed").write_text(f"set -e\n{tool}; }}\n{code}")
    return ["bash", "typed"]


MADE: dict[str, tuple[Callable[[Path, str, str], list[str]], str]] = {
    "java": (of_java, "from Java"),
    "go": (of_go, "from Go"),
    "js": (of_node, "from Node"),
    "rust": (of_rust, "from Rust"),
}


def run(broker: BrokerPart, place: Path, command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=STUCK_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(broker: BrokerPart, code: str) -> str:
    for shown in ("127.0.0.1:9092", "localhost:9092"):
        code = code.replace(shown, broker.bootstrap)
    return code


def test_each_language_of_the_guide_is_here() -> None:
    assert CODE.keys() == {*MADE, "sh"}


@pytest.mark.parametrize("language", MADE)
def test_a_program_produces_and_reads(
    broker: BrokerPart, programs: str, tmp_path: Path, language: str
) -> None:
    made, value = MADE[language]
    command = made(tmp_path, at(broker, CODE[language]), programs)
    said = run(broker, tmp_path, command)
    assert "from " in said
    values = [row[5] for row in consumed(broker.bootstrap, "orders")]
    assert value.encode() in values
    shutil.rmtree(tmp_path, ignore_errors=True)  # what Rust builds is large


def test_kafkas_own_tool_changes_what_runs(
    broker: BrokerPart, programs: str, tmp_path: Path
) -> None:
    said = run(broker, tmp_path, of_kafka(tmp_path, at(broker, CODE["sh"]), programs))
    assert said.count("Completed updating") == 2, said
