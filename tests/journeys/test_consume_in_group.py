"""What `lakelog consume --group` commits: ended amid a backlog, by a reader that goes,
and when the broker is away."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from broker.cli.consume import BATCH
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart, lakelog

EACH = 4 * BATCH
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us
{before}
from broker.cli import main
main()
"""
LOST_SOON = "from broker.cli import member; member.CONFIG['session.timeout.ms'] = 6000"
SOON = """
from broker.cli import topic_look
topic_look.LONG_MS, topic_look.UNASSIGNED_EVERY_MS = 3000, 300
"""
AGAIN = " (partitions 0) is not committed, and comes to the group again\n"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerPart]:
    """A broker that may be killed, with a topic "t" of three lines."""
    part = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=100")
    part.start()
    lakelog("produce", "t", "--bootstrap", part.bootstrap, stdin=b"1\n2\n3\n")
    yield part
    part.end()


def started(*words: str, before: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip


def lines(pipe: IO[bytes] | None, count: int) -> list[bytes]:
    """So many of what comes out of it."""
    assert pipe is not None
    return [pipe.readline() for _ in range(count)]


def committed(group: str, broker: BrokerPart) -> dict[int, int]:
    """Partition -> what is committed of it."""
    told = lakelog(
        "group", "describe", group, "--json", "--bootstrap", broker.bootstrap
    )
    return {
        row["partition"]: row["committed"] or 0 for row in json.loads(told)["offsets"]
    }


def unread(pipe: IO[bytes]) -> int:
    """How many bytes stand in it."""
    found = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)


def interrupted_at_a_full_pipe(*words: str) -> list[dict[str, Any]]:
    """What a command prints that gets ctrl-C when its reader is slow."""
    reader = started(*words)
    pipe = reader.stdout
    assert pipe is not None
    full = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) * 9 // 10
    begun = b""
    try:
        while len(begun) < BATCH * 200:  # some batches
            begun += os.read(pipe.fileno(), 4096)
        wait_until(lambda: unread(pipe) >= full)
        reader.send_signal(signal.SIGINT)
        rest, errors = reader.communicate(timeout=IDLE_S)
    finally:
        reader.kill()
    assert (reader.returncode, errors) == (0, b"")
    return [json.loads(line) for line in (begun + rest).splitlines()]


def test_what_was_not_printed_comes_to_the_group_again(
    broker: BrokerPart, topic: str
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("topic", "create", topic, "--partitions", "2", *at)
    lines = b"".join(b"%0100d\n" % number for number in range(EACH))
    for number in ("0", "1"):
        lakelog("produce", topic, "--partition", number, *at, stdin=lines)
    reads = ["consume", topic, "--group", f"g-{topic}", "--json", *at]

    places = Counter[tuple[int, int]]()
    for _ in range(3):
        printed = interrupted_at_a_full_pipe(*reads)
        assert printed
        places.update((one["partition"], one["offset"]) for one in printed)
        counted = Counter(number for number, _ in places)
        assert Counter(committed(f"g-{topic}", broker)) == counted
    assert places.total() < 2 * EACH
    rest = [json.loads(line) for line in lakelog(*reads, "--exit-at-end").splitlines()]
    places.update((one["partition"], one["offset"]) for one in rest)

    assert places.total() == 2 * EACH
    assert set(places) == {(n, offset) for n in (0, 1) for offset in range(EACH)}


def test_a_second_ctrl_c_ends_who_writes_where_nobody_reads(
    broker: BrokerPart, topic: str
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"%0100d\n" % 7 * EACH)
    reader = started("consume", topic, *at)
    try:
        assert reader.stdout is not None
        wait_until(lambda: unread(reader.stdout) >= BATCH * 40)
        wait_until(lambda: [reader.send_signal(signal.SIGINT), reader.poll()][1], 60, 1)
    finally:
        reader.kill()
    assert reader.returncode == -signal.SIGINT


def test_a_reader_that_goes_leaves_all_to_the_group(
    broker: BrokerPart, topic: str
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("produce", topic, *at, stdin=b"%09d\n" % 7 * 20_000)
    member = started("consume", topic, "--group", f"g-{topic}", *at)
    try:
        assert len(lines(member.stdout, 2)) == 2
        assert member.stdout is not None
        wait_until(lambda: unread(member.stdout) >= 2 * BATCH * 10)  # some batches
        member.stdout.close()
        assert member.wait(IDLE_S) == 1
        assert member.stderr is not None
        assert member.stderr.read() == b""
    finally:
        member.kill()
    assert not any(committed(f"g-{topic}", broker).values())


def test_a_member_commits_what_it_gives_to_another_one(
    broker: BrokerPart, topic: str
) -> None:
    at = ["--bootstrap", broker.bootstrap]
    lakelog("topic", "create", topic, "--partitions", "2", *at)
    for number in ("0", "1"):
        lakelog("produce", topic, "--partition", number, *at, stdin=b"a\nb\n")
    words = ["consume", topic, "--group", f"g-{topic}", *at]
    first, second = started(*words), None
    try:
        assert len(lines(first.stdout, 4)) == 4
        second = started(*words, "--count", "1")
        wait_until(lambda: committed(f"g-{topic}", broker) == {0: 2, 1: 2})
        first.send_signal(signal.SIGINT)
        assert first.communicate(timeout=IDLE_S) == (b"", b"")
    finally:
        for one in filter(None, (first, second)):
            one.kill()


def test_a_member_outlives_a_broker_that_is_away_and_gets_again_what_it_lost(
    own: BrokerPart,
) -> None:
    at = ["--bootstrap", own.bootstrap]
    words = ["consume", "t", "--group", "g", "--count", "7", *at]
    member = started(*words, before=LOST_SOON)
    try:
        assert lines(member.stdout, 3) == [b"1\n", b"2\n", b"3\n"]
        own.kill()
        assert member.stderr is not None
        assert any(line.decode().endswith(AGAIN) for line in member.stderr)
        own.start()
        lakelog("produce", "t", *at, stdin=b"4\n")
        assert lines(member.stdout, 4) == [b"1\n", b"2\n", b"3\n", b"4\n"]
        assert member.wait(IDLE_S) == 0
    finally:
        member.kill()
    assert committed("g", own) == {0: 4}


def test_ctrl_c_while_the_broker_is_away_says_what_is_not_committed(
    own: BrokerPart,
) -> None:
    member = started("consume", "t", "--group", "g", "--bootstrap", own.bootstrap)
    try:
        assert len(lines(member.stdout, 3)) == 3
        own.kill()
        member.send_signal(signal.SIGINT)
        _, errors = member.communicate(timeout=IDLE_S)
    finally:
        member.kill()
    why = "lakelog: no broker takes the group's commit: what was written of t"
    assert (member.returncode, errors.decode()) == (1, why + AGAIN)


def test_a_second_ctrl_c_ends_a_member_at_once(own: BrokerPart) -> None:
    member = started("consume", "t", "--group", "g", "--bootstrap", own.bootstrap)
    try:
        assert len(lines(member.stdout, 3)) == 3
        own.kill()
        wait_until(lambda: [member.send_signal(signal.SIGINT), member.poll()][1], 60, 1)
    finally:
        member.kill()
    assert member.returncode == -signal.SIGINT


def test_who_is_assigned_nothing_waits_for_no_broker_without_end(
    tmp_path: Path,
) -> None:
    own = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=600000")
    own.start()
    at = ["--bootstrap", own.bootstrap]
    lakelog("produce", "t", *at, stdin=b"1\n")
    member = started("consume", "t", "--group", "g", "--exit-at-end", *at, before=SOON)
    try:
        wait_until(lambda: "g" in lakelog("group", "list", *at).split())
        with pytest.raises(subprocess.TimeoutExpired):
            member.wait(6)  # a broker that answers is waited for
        own.kill()
        output, errors = member.communicate(timeout=IDLE_S)
    finally:
        member.kill()
        own.end()
    assert (member.returncode, output) == (1, b"")
    assert errors.decode() == (
        "lakelog: not at the end: nothing of t is assigned, and no broker answered for "
        "3 s\n"
    )
