"""Drives a `Wal` as the loop would: batches in, callbacks by hand."""

import random
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue

from broker.ids import TopicPartition
from broker.records.batch import BatchHeader, assign, read_header, seal
from broker.records.layout import HEADER
from broker.records.markers import Marker, marker_batch
from broker.storage.entry import Append, position_of
from broker.storage.files import Files
from broker.storage.recovery import Recovery
from broker.storage.segment import SegmentInfo
from broker.storage.wal import Wal
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles
from tests.support.patience import IDLE_S, Patience

WAL = Path("/data/wal")
SEGMENT_BYTES = 16 << 10


def batch(
    base_offset: int, size: int = 100, *, records: int = 1, seed: int = 0
) -> bytes:
    """A batch of ``size`` bytes whose header and checksum are right."""
    body = random.Random((base_offset, size, seed).__repr__()).randbytes(size - 61)
    header = BatchHeader(
        base_offset, size - 12, 0, 2, 0, 0, records - 1,
        1000 + base_offset, 1000 + base_offset, -1, -1, -1, records,
    )  # fmt: skip
    data = bytearray(HEADER.pack(*header) + body)
    seal(data)
    return bytes(data)


def an_append(
    data: bytes | bytearray,
    partition: int = 0,
    topic: int = 1,
    done: Callable[[Append], None] = lambda _: None,
) -> Append:
    header = read_header(data)
    return Append(
        topic, partition, data, header, header.base_offset,
        header.last_offset, header.max_timestamp, done,
    )  # fmt: skip


class Driver:
    """A log and the loop that it hands its results to."""

    def __init__(self, files: Files, directory: Path = WAL, **options: object) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.sealed: list[SegmentInfo] = []
        self.finished: list[Append] = []
        self.files = files
        self.next_offset: dict[TopicPartition, int] = {}
        self.wal, self.recovery = self._open(files, directory, options)

    def _open(
        self, files: Files, directory: Path, options: dict[str, object]
    ) -> tuple[Wal, Recovery]:
        settings: dict[str, object] = {
            "segment_bytes": SEGMENT_BYTES,
            "hot_bytes": 2 * SEGMENT_BYTES,
            "on_sealed": self.sealed.append,
            "clock": ManualClock(),
            "next_turn": self.calls.put,
        }
        settings |= options
        return Wal.open(files, directory, call_soon=self.calls.put, **settings)  # type: ignore[arg-type]

    def append(self, size: int = 100, partition: int = 0, topic: int = 1, **more: int):
        """Queue a batch at the partition's next offset."""
        key = (topic, partition)
        base = self.next_offset.get(key, 0)
        data = batch(base, size, **{"seed": partition, **more})
        one = an_append(data, partition, topic, self.finished.append)
        self.next_offset[key] = one.last_offset + 1
        self.wal.append(one)
        return one

    def append_marker(self, partition: int = 0, topic: int = 1) -> Append:
        """Queue the marker of a transaction at the partition's next offset."""
        key = (topic, partition)
        data = marker_batch(1, 0, Marker(True), 1000)
        assign(data, self.next_offset.get(key, 0))
        one = an_append(data, partition, topic, self.finished.append)
        self.next_offset[key] = one.last_offset + 1
        self.wal.append(one)
        return one

    def turn(self, timeout: float = IDLE_S) -> None:
        """One callable on the loop; waits for it."""
        self.calls.get(timeout=timeout)()

    def finish(self, appends: Iterable[Append]) -> None:
        """Turn until each of them was told."""
        waiting = list(appends)
        while any(one not in self.finished for one in waiting):
            self.turn()

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the recycler work until something holds."""
        patience = Patience()
        while True:
            while not self.calls.empty():
                self.turn()
            if condition():
                return
            assert patience.lasts(), "it never came true"
            time.sleep(0.001)

    def settle(self) -> None:
        """Until the first spare is written: while time stands nothing more is synced
        but what is appended."""
        self.until(lambda: not self.wal._pool.could_warm())

    def numbers(self) -> set[int]:
        """Of the segments whose files are not free."""
        return {segment.sequence for segment in self.wal._segments.all()}

    def close(self) -> None:
        self.wal.close()
        while not self.calls.empty():
            self.turn()


def plugged(files: Files, **options: object) -> tuple[Driver, Append, threading.Event]:
    """A log whose writer has taken one batch and holds it until the event is set: what
    is appended meanwhile waits together."""
    taken, gate = threading.Event(), threading.Event()

    def hold(_: Append) -> None:
        taken.set()
        assert gate.wait(IDLE_S)

    driver = Driver(files, inspect=hold, **options)
    driver.settle()
    first = driver.append()
    assert taken.wait(IDLE_S)
    return driver, first, gate


def fill(driver: Driver, segments: int) -> list[Append]:
    """Batches of 1000 bytes for so many segments, all of which are sealed."""
    appends = [driver.append(size=1000) for _ in range(12 * segments)]
    driver.finish(appends)
    driver.wal.roll()
    driver.until(lambda: all(info.sealed for info in driver.wal.segments()))
    return appends


def damaged_last_group(files: ForgetfulFiles) -> tuple[ForgetfulFiles, list[Append]]:
    """A batch, and three that were written together when it was durable, of which the
    first is damaged: no entry proves that it was durable, only the position. What a
    kill left, and the four."""
    driver = Driver(files)
    driver.settle()  # or the first slot's own sync is held, for ever
    may_sync = files.hold("fdatasync")
    first = driver.append(size=500)
    written = bytes(first.batch)
    driver.until(lambda: any(written in i.data for i in list(files.names.values())))
    group = [first, *(driver.append(size=500) for _ in range(3))]
    may_sync.set()
    driver.finish(group)
    (info,) = driver.wal.segments()
    file = files.open(info.path)
    files.pwritev(file, [b"damage"], position_of(group[1].location) + 100)
    driver.close()
    return files.after_kill(), group


def held(recovery: Recovery, wal: Wal) -> dict[TopicPartition, list[bytes]]:
    """All batches that a recovered log has, read through it."""
    return {
        key: [
            wal.read([(int(location), int(length))])[0]
            for location, length in zip(columns.location, columns.length, strict=True)
        ]
        for key, columns in recovery.columns.items()
    }
