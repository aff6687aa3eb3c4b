"""What one segment file says of itself: sealed or not, whole or not, still the same."""

import pytest

from broker.storage.columns import rows_of
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.segment import StaleSegment
from broker.storage.segment_file import SegmentFile, identity_of
from tests.broker.storage.driver import WAL, Driver
from tests.support.files import ForgetfulFiles

BATCH_BYTES = 500


@pytest.fixture
def sealed() -> SegmentFile:
    """A sealed segment of three batches."""
    driver = Driver(ForgetfulFiles())
    driver.finish([driver.append(size=BATCH_BYTES) for _ in range(3)])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    (info,) = driver.wal.segments()
    driver.close()
    return SegmentFile(driver.files, driver.files.open(info.path), info.sequence)


def damage(segment: SegmentFile, position: int) -> None:
    (byte,) = segment.files.pread(segment.file, 1, position)
    segment.files.pwritev(segment.file, [bytes([byte ^ 1])], position)


def test_the_footer_names_what_a_scan_finds(sealed: SegmentFile) -> None:
    seal = sealed.seal()
    assert seal is not None
    rows = sealed.footer(seal)
    found = sealed.scan(seal.data_end, durable_end=seal.data_end)
    assert rows is not None
    assert rows.tolist() == rows_of(bytes(found.rows)).tolist()
    assert len(rows) == 3
    assert (found.end, found.damage) == (seal.data_end, [])
    assert list(sealed.faults(rows, 0, seal.data_end)) == []


def test_a_scan_goes_on_where_the_last_one_ended(sealed: SegmentFile) -> None:
    seal = sealed.seal()
    assert seal is not None
    whole = sealed.scan(seal.data_end, durable_end=0)
    half = rows_of(bytes(whole.rows))["position"][1] + BATCH_BYTES
    first = sealed.scan(int(half), durable_end=0)
    rest = sealed.scan(seal.data_end, durable_end=0, start=first.end)
    assert first.rows + rest.rows == whole.rows
    nothing = sealed.scan(seal.data_end, durable_end=0, start=seal.data_end)
    assert (nothing.end, nothing.rows) == (seal.data_end, b"")


@pytest.mark.parametrize("size", [600, HEADER_BLOCK_BYTES, HEADER_BLOCK_BYTES + 400])
def test_all_that_was_durable_in_a_file_that_was_cut_off_is_damaged(
    sealed: SegmentFile, size: int
) -> None:
    seal, files = sealed.seal(), sealed.files
    assert seal is not None
    file = files.create(WAL / "cut")
    files.pwritev(file, [files.pread(sealed.file, size, 0)], 0)
    cut, end = SegmentFile(files, file, sealed.sequence), seal.data_end
    found = cut.scan(end, durable_end=end)
    assert (found.end, found.holes) == (end, [(HEADER_BLOCK_BYTES, end)])
    assert cut.scan(end, durable_end=end, start=end).holes == []


def test_a_footer_with_a_wrong_bit_is_none(sealed: SegmentFile) -> None:
    seal = sealed.seal()
    assert seal is not None
    damage(sealed, seal.footer_position + 7)
    assert sealed.footer(seal) is None


def test_a_batch_with_a_wrong_bit_is_a_fault(sealed: SegmentFile) -> None:
    seal = sealed.seal()
    assert seal is not None
    rows = sealed.footer(seal)
    assert rows is not None
    place = int(rows["position"][1])
    damage(sealed, place + 100)
    ((index, why),) = sealed.faults(rows, 0, seal.data_end)
    assert (index, "checksum" in why) == (1, True)
    assert list(sealed.faults(rows, place + 1, seal.data_end)) == []


def test_a_file_of_another_generation_is_stale(sealed: SegmentFile) -> None:
    identity = identity_of(sealed.files, sealed.file)
    assert identity is not None
    assert identity.sequence == sealed.sequence
    sealed.check_current()
    other = SegmentFile(sealed.files, sealed.file, sealed.sequence + 1)
    with pytest.raises(StaleSegment):
        other.check_current()
    assert other.seal() is None
    assert not other.scan(HEADER_BLOCK_BYTES + 4096, durable_end=0).rows
