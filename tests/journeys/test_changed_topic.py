"""`lakelog consume` follows a topic that is extended, deleted and made again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.patience import STUCK_S
from tests.support.process import BrokerPart, lakelog

PROGRAM = """
import faulthandler, signal
from broker.cli import main, topic_look
faulthandler.register(signal.SIGUSR1)
topic_look.EVERY_MS = 300
topic_look.CONFIG["topic.metadata.refresh.interval.ms"] = 300
topic_look.CONFIG["topic.metadata.propagation.max.ms"] = 300
main()
"""
Follow = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def follow(broker: BrokerPart) -> Iterator[Follow]:
    """Starts a command that goes on until the test ends."""
    started: list[subprocess.Popen[bytes]] = []

    def follow(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROGRAM, "consume", *words]
        started.append(
            subprocess.Popen(
                [*command, "--bootstrap", broker.bootstrap],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            )
        )  # fmt: skip
        return started[-1]

    yield follow
    for one in started:
        one.kill()
        one.communicate()


def ended(reader: subprocess.Popen[bytes]) -> tuple[bytes, str]:
    """What it wrote since, once it has ended; fails with where it is if it goes on."""
    try:
        output, errors = reader.communicate(timeout=STUCK_S)
        return output, errors.decode()
    except subprocess.TimeoutExpired:
        reader.send_signal(signal.SIGUSR1)
        time.sleep(1)
        reader.kill()
        pytest.fail(f"it goes on: {reader.communicate()[1].decode()}")


def test_partitions_that_are_added_are_read(
    broker: BrokerPart, topic: str, follow: Follow
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"old\n")
    reader = follow(topic, "--count", "3")
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"old\n"
    lakelog("topic", "alter", topic, "--partitions", "3", *at)
    for number in ("1", "2"):
        lakelog("produce", topic, "--partition", number, *at, stdin=b"new\n")
    output, errors = ended(reader)
    assert (reader.returncode, output, errors) == (0, b"new\nnew\n", "")


@pytest.mark.parametrize("words", [[], ["--group", "g"]])
def test_a_topic_that_is_deleted_is_said_and_one_made_again_is_read(
    broker: BrokerPart, topic: str, follow: Follow, words: list[str]
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"old\n")
    reader = follow(topic, "--count", "2", *words)
    assert reader.stdout is not None
    assert reader.stderr is not None
    assert reader.stdout.readline() == b"old\n"
    lakelog("topic", "delete", topic, *at)
    said = reader.stderr.readline().decode()
    assert said.startswith(f"lakelog: there is no topic {topic!r} any more; ")
    time.sleep(3)  # librdkafka says to a member that its topic is not there, some times
    lakelog("produce", topic, *at, stdin=b"new\n")
    output, errors = ended(reader)
    assert (reader.returncode, output, errors) == (0, b"new\n", "")


@pytest.mark.parametrize("words", [[], ["--group", "g"]])
def test_who_reads_to_the_end_of_a_topic_that_is_deleted_ends(
    broker: BrokerPart, topic: str, follow: Follow, words: list[str]
) -> None:
    """Also who reads no further when that happens: the pipe is full."""
    at = ["--bootstrap", broker.bootstrap]
    lines = b"".join(b"%0100d\n" % number for number in range(20_000))
    lakelog("produce", topic, *at, stdin=lines)
    reader = follow(topic, "--exit-at-end", *words)
    assert reader.stdout is not None
    first = reader.stdout.readline()
    lakelog("topic", "delete", topic, *at)
    time.sleep(1)
    output, errors = ended(reader)
    if reader.returncode:  # not all of it was here when it was deleted
        assert f"not at its end: there is no topic {topic!r} any more" in errors
    else:
        assert first + output == lines
