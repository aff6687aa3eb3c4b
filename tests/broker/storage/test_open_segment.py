"""What is said of batches in a segment that is open for reading."""

import numpy as np
import pytest

from broker.records.batch import TRANSACTIONAL_BIT
from broker.records.kinds import COMMIT, DAMAGED, TRANSACTIONAL
from broker.records.markers import Marker, marker_batch
from broker.storage.entry import position_of, sequence_of
from broker.storage.segment import StaleSegment
from broker.storage.store import LocalSegmentStore
from tests.broker.storage.driver import WAL, Driver, an_append
from tests.support.batches import Record, make_batch
from tests.support.files import ForgetfulFiles


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


def test_a_range_is_what_was_written_there_and_ends_with_the_file(files) -> None:
    driver = Driver(files)
    one = driver.append(size=500)
    driver.finish([one])
    [info] = driver.wal.segments()
    size = files.size(files.open_read(info.path))
    with LocalSegmentStore(files, WAL).opened(info.sequence) as segment:
        assert segment.read_range(position_of(one.location), 500) == one.batch
        assert len(segment.read_range(size - 3, 10)) == 3
        assert segment.kinds(np.array([], int), np.array([], int)) is None
    driver.close()


def test_what_was_read_counts_only_if_the_segment_is_there_still(files) -> None:
    driver = Driver(files, spare_segments=0)
    old = driver.append(size=500)
    driver.finish([old])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    with LocalSegmentStore(files, WAL).opened(sequence_of(old.location)) as segment:
        segment.check_current()
        driver.wal.release(sequence_of(old.location))
        driver.wal.checkpoint(b"")
        driver.until(lambda: not driver.numbers())
        driver.finish([driver.append(size=500)])
        with pytest.raises(StaleSegment):
            segment.check_current()
    driver.close()


@pytest.mark.parametrize("damaged", [False, True])
def test_a_marker_that_does_not_verify_says_nothing(files, damaged: bool) -> None:
    driver = Driver(files)
    batch = marker_batch(7, 0, Marker(True), 1_000)
    one = an_append(bytes(batch), done=driver.finished.append)
    driver.wal.append(one)
    driver.finish([one])
    if damaged:
        (node,) = [n for n in files.names.values() if bytes(batch) in bytes(n.data)]
        node.data[bytes(node.data).index(bytes(batch)) + 69] ^= 1
    with LocalSegmentStore(files, WAL).opened(sequence_of(one.location)) as segment:
        at = np.array([position_of(one.location)])
        found = segment.kinds(at, np.array([len(batch)]))
    assert found is not None
    assert found.kind.tolist() == [DAMAGED if damaged else COMMIT]
    assert found.producer.tolist() == [7]
    driver.close()


@pytest.mark.parametrize("size", [100, 5_000])
def test_a_whole_batch_at_the_end_of_what_is_looked_at_is_none_that_is_damaged(
    files, size: int
) -> None:
    """It is longer than a marker, which is all that is asked of most."""
    driver = Driver(files)
    records = [Record(value=b"v" * size)]
    batches = [
        bytes(
            make_batch(
                records, base, producer=(7, base, 0), attributes=TRANSACTIONAL_BIT
            )
        )
        for base in range(2)
    ]
    appends = [an_append(one, done=driver.finished.append) for one in batches]
    for one in appends:
        driver.wal.append(one)
    driver.finish(appends)
    with LocalSegmentStore(files, WAL).opened(
        sequence_of(appends[0].location)
    ) as segment:
        at = np.array([position_of(one.location) for one in appends])
        found = segment.kinds(at, np.array([len(batch) for batch in batches]))
    assert found is not None
    assert found.kind.tolist() == [TRANSACTIONAL, TRANSACTIONAL]
    driver.close()
