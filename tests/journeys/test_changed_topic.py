"""`lakelog consume` follows a topic that is extended, deleted and made again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from select import select

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.patience import IDLE_S, STUCK_S, wait_until
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
RARELY = """
topic_look.EVERY_MS = 6000
topic_look.CONFIG["topic.metadata.refresh.interval.ms"] = 60_000
del topic_look.CONFIG["topic.metadata.propagation.max.ms"]
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


def make_at_once(broker: BrokerPart, topic: str, lines: list[bytes]) -> None:
    """A topic that has these before others have heard of it."""
    at = {"bootstrap.servers": broker.bootstrap}
    admin, producer = AdminClient(at), Producer(at)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    for line in lines:
        producer.produce(topic, line.rstrip())
    assert producer.flush(IDLE_S) == 0


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


def test_one_made_again_is_read_from_its_beginning_however_soon_it_is_long(
    broker: BrokerPart, topic: str, follow: Follow
) -> None:
    """librdkafka finds it before the next look, and would go on where it was."""
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"old\n" * 100)
    reader = follow(topic, "--count", "250", more=RARELY)
    assert reader.stdout is not None
    assert reader.stderr is not None
    assert [reader.stdout.readline() for _ in range(100)] == [b"old\n"] * 100
    lakelog("topic", "delete", topic, *at)
    assert any(b"there is no topic" in line for line in reader.stderr)
    new = [b"new%d\n" % number for number in range(150)]
    make_at_once(broker, topic, new)
    assert reader.stdout.readline() == new[0]
    output, errors = ended(reader)
    assert (reader.returncode, output, errors) == (0, b"".join(new[1:]), "")


def test_what_is_left_of_one_that_is_gone_is_not_printed_behind_that_word(
    broker: BrokerPart, topic: str, follow: Follow
) -> None:
    """Whose reader is slow has more of it: with that the new one would begin there."""
    at = ["--bootstrap", broker.bootstrap]
    lines = [b"%0100d\n" % number for number in range(20_000)]
    lakelog("produce", topic, *at, stdin=b"".join(lines))
    reader = follow(topic)
    assert reader.stdout is not None
    assert reader.stderr is not None
    found = [reader.stdout.readline()]
    lakelog("topic", "delete", topic, *at)
    time.sleep(1)
    while reader.stderr not in select([reader.stdout, reader.stderr], [], [])[0]:
        found.append(reader.stdout.readline())
    assert b"there is no topic" in reader.stderr.readline()
    lakelog("produce", topic, *at, stdin=b"new\n" * 20_000 + b"end\n")
    found += iter(reader.stdout.readline, b"end\n")
    old = lines[: len(found) - 20_000]
    assert len(old) < 15_000
    assert found == old + [b"new\n"] * 20_000


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
