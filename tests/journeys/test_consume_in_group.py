"""What `lakelog consume --group` commits when it is ended amid a backlog."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections import Counter
from typing import IO, Any

from broker.cli.consume import BATCH
from tests.support.patience import IDLE_S, wait_until
from tests.support.process import BrokerPart, lakelog

EACH = 4 * BATCH
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us
from broker.cli import main
main()
"""


def unread(pipe: IO[bytes]) -> int:
    """How many bytes stand in it."""
    found = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)


def interrupted_at_a_full_pipe(*words: str) -> list[dict[str, Any]]:
    """What a command prints that gets ctrl-C when its reader is slow."""
    reader = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    pipe = reader.stdout
    assert pipe is not None
    full = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) * 9 // 10
    begun = b""
    try:
        while len(begun) < BATCH * 400:  # some batches
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

    printed = interrupted_at_a_full_pipe(*reads)
    told = json.loads(lakelog("group", "describe", f"g-{topic}", "--json", *at))
    committed = {row["partition"]: row["committed"] or 0 for row in told["offsets"]}
    counted = Counter(one["partition"] for one in printed)
    rest = [json.loads(line) for line in lakelog(*reads, "--exit-at-end").splitlines()]

    assert 0 < len(printed) < 2 * EACH
    assert all(end <= counted[number] for number, end in committed.items())
    assert len(printed) - sum(committed.values()) < BATCH
    places = {(one["partition"], one["offset"]) for one in (*printed, *rest)}
    assert places == {(number, offset) for number in (0, 1) for offset in range(EACH)}
    assert len(rest) == 2 * EACH - sum(committed.values())
