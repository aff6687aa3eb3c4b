"""What a broker holds that waits long for its compactor: a start of it, and its turns.

A start is measured in processor time, beside a fixed piece of work on as many batches
in the same minute; turns as in `test_turns`.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.lake.segment_retention import SegmentRetention
from broker.log.partition import PartitionLog
from broker.records.batch import assign, read_header
from broker.runtime.partitions.partitions import Partitions
from broker.storage.columns import ROW_TYPE
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, Entry, read_entry
from broker.storage.files import PosixFiles
from broker.storage.ranges import pack_ranges
from broker.storage.recovery import Found, recover
from broker.storage.segment import SealedSegment, SegmentInfo, Slot
from broker.storage.segment_file import SegmentFile
from broker.storage.segment_registry import SegmentRegistry
from broker.storage.wal import Wal
from tests.broker.storage.driver import batch
from tests.support.clock import ManualClock
from tests.support.turns import (
    callbacks_ms,
    check_turn,
    uncollected,
)

PARTITIONS, SEGMENTS = 1_000, 40
BATCHES = PARTITIONS * SEGMENTS
ROUNDS = 6
SEGMENT_BYTES = 1 << 20
HELD = 5_000
"""Segments of a backlog of 50 GB are 800, or four times as many if they are small."""


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


@pytest.fixture
def held() -> Wal:
    """A log that holds thousands of segments; nothing here reads a file."""
    ranges = pack_ranges({(1, index): (0, 5) for index in range(5)})
    wal: Any = object.__new__(Wal)
    pending = (0, np.zeros(0, ROW_TYPE))
    wal._writer = SimpleNamespace(pending=lambda: pending, failed=None)
    wal._cache = SimpleNamespace(drop=lambda _: None)
    wal._wake = lambda: None
    wal._pool = SimpleNamespace(is_short=False, trouble=None)
    wal._space = SimpleNamespace(refusal=None)
    wal._segments = SegmentRegistry(
        SealedSegment(
            Slot(number, Path(), 0, 1), SegmentInfo(number, True, 5000, ranges, 1, 1)
        )
        for number in range(2, 2 * HELD + 2, 2)
    )
    return wal  # type: ignore[no-any-return]


def partitions_in(wal: Wal) -> Partitions:
    """Five partitions, of which each remembers an aborted transaction."""
    logs = []
    for index in range(5):
        log = PartitionLog()
        log.offsets.assign(5)
        log.commit(0, 4, 0, 2 * HELD + 2 << 32, 100)
        log.transactions.begin(0, 1)
        log.transactions.end(4, 1, commits=False)
        logs.append(SimpleNamespace(log=log, key=(1, index)))
    made: Any = object.__new__(Partitions)
    made._by_topic, made._wal = {1: logs}, wal
    made._waiting = SimpleNamespace(topics=())
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize("in_table", [0, 5])
def test_thousands_of_segments_are_looked_at_and_released_in_many_turns(
    held: Wal, *, in_table: int
) -> None:
    """As an earlier process left them: none of them is a cache."""

    def longest_ms() -> float:
        held._segments._released.clear()
        retention = SegmentRetention(
            held,
            table_end=lambda *_: in_table,
            is_deleted=lambda _: False,
            verified_ends=lambda _: dict.fromkeys(range(5), 5),
            note_ends=lambda _: asyncio.sleep(0),
            before_release=partitions_in(held).segment_released,
            clock=ManualClock(),
            keep_ms=0,
            idle_seal_ms=0,
            cache_bytes=1 << 50,
        )
        with callbacks_ms() as turns:
            released = asyncio.run(retention.tick())
        retention.close()
        assert len(released) == (HELD if in_table else 0)
        return max(turns)

    with uncollected():
        check_turn("thousands of segments", longest_ms)
