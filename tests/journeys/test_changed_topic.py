"""`lakelog consume` follows a topic that is extended, deleted and made again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.patience import STUCK_S, wait_until
from tests.support.process import BrokerPart, lakelog

PROGRAM = """
import faulthandler, signal
from broker.cli import main, topic_look
faulthandler.register(signal.SIGUSR1)
topic_look.EVERY_MS = 300
topic_look.CONFIG["topic.metadata.refresh.interval.ms"] = 300
topic_look.CONFIG["topic.metadata.propagation.max.ms"] = 300
{more}
main()
"""
LOST_SOON = """
from broker.cli import member
member.CONFIG["session.timeout.ms"] = 6000
topic_look.EVERY_MS = 600_000  # it looks because it has to know
topic_look.CONFIG["queued.min.messages"] = 1000
topic_look.CONFIG["fetch.message.max.bytes"] = 50_000
"""
Follow = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def follow(broker: BrokerPart) -> Iterator[Follow]:
    """Starts a command that goes on until the test ends."""
    started: list[subprocess.Popen[bytes]] = []

    def follow(*words: str, more: str = "") -> subprocess.Popen[bytes]:
        program = PROGRAM.format(more=more)
        command = [sys.executable, "-c", program, "consume", *words]
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


def groups(*at: str) -> list[list[str]]:
    """Each group's name and state."""
    return [line.split() for line in lakelog("group", "list", *at).splitlines()]


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


def test_who_is_given_nothing_of_a_topic_that_is_gone_is_not_at_its_end(
    broker: BrokerPart, topic: str, follow: Follow
) -> None:
    """A member that was paused joins its group again, where there is no such topic."""
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"%0100d\n" % 7 * 20_000)
    reader = follow(topic, "--exit-at-end", "--group", f"g-{topic}", more=LOST_SOON)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.send_signal(signal.SIGSTOP)
    lakelog("topic", "delete", topic, *at)
    wait_until(lambda: [f"g-{topic}", "STABLE"] not in groups(*at))
    reader.send_signal(signal.SIGCONT)
    output, errors = ended(reader)
    assert len(output.splitlines()) < 19_000
    end = f"lakelog: not at its end: there is no topic {topic!r} any more"
    assert (reader.returncode, errors.splitlines()[-1]) == (1, end)
