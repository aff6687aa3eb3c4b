"""What refused requests leave behind is collected in short turns of the loop."""

import subprocess
import sys
from pathlib import Path

from tests.support.turns import slowness

MIDDLE_MS = 3.0
"""In a broker a refusal holds ten times as much."""

PROGRAM = """
import gc, time
from broker.node import _tune_garbage_collection
from broker.protocol.errors import ErrorCode, KafkaError

_tune_garbage_collection()
began, turns = [0.0], []

def clocked(phase, _):
    if phase == "start":
        began[0] = time.thread_time()
    else:
        turns.append((time.thread_time() - began[0]) * 1000)

def refuse():
    try:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
    except KafkaError as error:
        kept = error  # the frame holds the error, and its traceback the frame
        return kept.code

gc.callbacks.append(clocked)
for _ in range(200_000):
    refuse()
print(len(turns), sorted(turns)[len(turns) // 2])
"""


def test_the_garbage_of_refusals_is_collected_in_short_turns() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    collections, middle_ms = done.stdout.split()
    assert int(collections) > 0
    assert float(middle_ms) < MIDDLE_MS * slowness()
