"""A start of a broker that holds what waits long for its compactor.

It is measured in processor time, beside a fixed piece of work on as many batches in the
same minute.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from broker.records.batch import assign, read_header
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, Entry, read_entry
from broker.storage.files import PosixFiles
from broker.storage.recovery import Found, recover
from broker.storage.segment import SegmentInfo
from broker.storage.segment_file import SegmentFile
from broker.storage.wal import Wal
from tests.broker.storage.driver import batch
from tests.support.turns import (
    uncollected,
)

PARTITIONS, SEGMENTS = 1_000, 40
BATCHES = PARTITIONS * SEGMENTS
ROUNDS = 6
SEGMENT_BYTES = 1 << 20


def write_backlog(path: Path) -> None:
    """``SEGMENTS`` sealed segments with a batch of each partition, and a checkpoint
    behind them."""
    calls: SimpleQueue[Any] = SimpleQueue()
    sealed: list[SegmentInfo] = []
    wal, _ = Wal.open(
        PosixFiles(), path, call_soon=calls.put, next_turn=calls.put,
        segment_bytes=SEGMENT_BYTES, on_sealed=sealed.append, spare_segments=2,
    )  # fmt: skip
    batches = [bytearray(batch(0, 150, seed=index)) for index in range(PARTITIONS)]
    for base in range(SEGMENTS):
        done: list[Append] = []
        for index, data in enumerate(batches):
            assign(data, base)
            header = read_header(data)
            wal.append(Append(1, index, data, header, base, base, 0, done.append))
        while len(done) < PARTITIONS:
            calls.get()()
        wal.roll()
        while len(sealed) <= base:
            calls.get()()
    wal.checkpoint(b"all of it")
    wal.close()


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    write_backlog(tmp_path)
    return tmp_path


def taken_s(work: Callable[[], Any]) -> float:
    """Processor time of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(path: Path, reference: Callable[[Found], Any]) -> float:
    """How many times longer a start takes than the reference on what it found; each of
    them the least of some rounds in turn."""
    files, starts, references = PosixFiles(), list[float](), list[float]()
    kept = (path / "checkpoint").read_bytes() if has_checkpoint(path) else None
    for _ in range(ROUNDS):
        began = time.process_time()
        found, recovery = recover(files, path)
        said = list(recovery.replay.of_producers())
        starts.append(time.process_time() - began)
        assert sum(len(each.ranges) for each in found.segments.values()) == BATCHES
        assert len(recovery.replay) == (0 if kept else BATCHES)
        assert not said, "nobody numbered them"
        references.append(taken_s(lambda f=found: reference(f)))
        for slot in (*(s.slot for s in found.segments.values()), *found.free):
            files.close(slot.file)
    sys.stdout.write(
        f"start: {min(starts) * 1e6 / BATCHES:.2f} us for each, "
        f"beside {min(references) * 1e6 / BATCHES:.2f}\n"
    )
    return min(starts) / min(references)


def has_checkpoint(path: Path) -> bool:
    return (path / "checkpoint").exists()


def make_dicts(found: Found) -> list[Any]:
    """What each segment holds, as objects."""
    return [dict(each.ranges.items()) for each in found.segments.values()]


def ask_each(found: Found) -> None:
    """Verify each entry by itself."""
    for segment in found.segments.values():
        file = SegmentFile(PosixFiles(), segment.slot.file, segment.sequence)
        seal = file.seal()
        assert seal is not None
        rows = file.footer(seal)
        assert rows is not None
        with file.view(segment.end, 0) as view:
            for position in rows["position"].tolist():
                place = position - ENTRY_HEADER_BYTES
                entry = read_entry(view, place, segment.sequence, segment.end)
                assert isinstance(entry, Entry)


def test_a_start_costs_little_more_than_the_names_of_what_is_held(
    backlog: Path,
) -> None:
    """It was three times as much when it made them objects, one by one."""
    with uncollected():
        assert ratio(backlog, make_dicts) < 2.5


def test_a_start_without_a_checkpoint_asks_no_entry_by_itself(backlog: Path) -> None:
    """It verifies each batch all the same, and asks it who wrote it."""
    (backlog / "checkpoint").unlink()
    with uncollected():
        assert ratio(backlog, ask_each) < 1.3
