"""Batches are read back from where they lie: out of memory, or verified from a file."""

import errno
from pathlib import Path

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.batch_reader import BatchReader
from broker.storage.cache import SegmentCache
from broker.storage.entry import position_of, sequence_of
from broker.storage.files import PosixFiles
from broker.storage.segment import StaleSegment
from broker.storage.segment_registry import SegmentRegistry
from tests.broker.storage.driver import SEGMENT_BYTES, Driver, fill
from tests.support.files import ForgetfulFiles


def test_only_the_newest_segments_stay_in_memory(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path / "wal")
    appends = fill(driver, 5)
    shown = [driver.wal.view(one.location, 1000) is not None for one in appends]
    assert shown == sorted(shown)
    assert 0 < sum(shown) <= 2 * 12
    for one in appends:
        assert driver.wal.read([(one.location, 1000)]) == [one.batch]
    driver.close()


def test_a_damaged_batch_is_reported_and_not_served(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path / "wal")
    appends = fill(driver, 1)
    (info, *_) = driver.wal.segments()
    with info.path.open("r+b") as file:
        file.seek(4096 + 48 + 200)
        file.write(b"\xff" * 8)
    with pytest.raises(KafkaError) as caught:
        driver.wal.read([(appends[0].location, 1000)])
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert driver.wal.read([(appends[1].location, 1000)]) == [appends[1].batch]
    driver.close()


def test_what_lies_before_a_damaged_batch_is_read(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path / "wal")
    appends = fill(driver, 3)
    (info, *_) = driver.wal.segments()
    with info.path.open("r+b") as file:
        file.seek(position_of(appends[1].location) + 200)
        file.write(b"\xff" * 8)
    spans = [(one.location, 1000) for one in appends]
    assert driver.wal.read(spans) == [appends[0].batch]
    assert driver.wal.read(spans[2:4]) == [one.batch for one in appends[2:4]]
    driver.close()


def test_what_lies_before_a_batch_that_the_disk_cannot_read_is_read() -> None:
    files = ForgetfulFiles()
    driver = Driver(files)
    appends = fill(driver, 1)
    spans = [(one.location, 1000) for one in appends]
    files.fail("pread", OSError(errno.EIO, "Input/output error"), nth=3)
    assert driver.wal.read(spans) == [one.batch for one in appends[:2]]
    files.fail("pread", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        driver.wal.read(spans[2:])
    driver.close()


def test_batches_of_many_segments_are_had_from_memory_at_once(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path / "wal", hot_bytes=SEGMENT_BYTES)
    appends = fill(driver, 3)
    assert len({sequence_of(one.location) for one in appends}) > 2
    spans = [(one.location, 1000) for one in appends]
    assert driver.wal.views(spans) == [one.batch for one in appends]
    assert driver.wal.views(spans[3:5]) == [one.batch for one in appends[3:5]]
    driver.wal.rest()
    assert driver.wal.views(spans) == [one.batch for one in appends]
    first = sequence_of(appends[0].location)
    driver.wal.release(first)
    assert driver.wal.views(spans) == []
    later = [span for span in spans if sequence_of(span[0]) > first]
    assert len(driver.wal.views(later)) == len(later)
    driver.close()


class ReleasedMeanwhile(ForgetfulFiles):
    """Whose segment is released between the look at it and the read."""

    segments: SegmentRegistry | None = None
    sequence = 0

    def pread(self, file: int, length: int, position: int) -> bytes:
        segments, self.segments = self.segments, None
        if segments is not None:
            segments.release(self.sequence)
        return super().pread(file, length, position)


def test_what_is_released_while_it_is_read_is_not_given_out() -> None:
    """Its file may be another segment's by then."""
    files = ReleasedMeanwhile()
    driver = Driver(files)
    [one, *_] = fill(driver, 1)
    segments = driver.wal._segments
    reader = BatchReader(files, segments, SegmentCache(files, 0))
    assert reader.read([(one.location, 1000)]) == [one.batch]
    files.sequence, files.segments = sequence_of(one.location), segments
    with pytest.raises(StaleSegment):
        reader.read([(one.location, 1000)])
    driver.close()
