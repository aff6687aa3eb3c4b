"""What is needed of several segments is copied into one, batch by batch."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest

from broker.storage import carry
from broker.storage.carry import Carried
from broker.storage.columns import ROW_TYPE, rows_of
from broker.storage.entry import sequence_of
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.segment import SealedSegment, Slot
from broker.storage.segment_file import SegmentFile, identity_of
from tests.broker.storage.driver import WAL, Driver
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles

Steps = Generator[None, None, tuple[SealedSegment, Carried]]


def some_rows(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Partition, base, last delta, position of each."""
    return np.array(
        [(1, part, base, delta, 0, place, 100) for part, base, delta, place in rows],
        dtype=ROW_TYPE,
    )


def test_a_batch_is_needed_if_any_of_its_offsets_is() -> None:
    rows = some_rows(
        (0, 0, 9, 4200), (1, 0, 0, 4300), (0, 10, 9, 4400), (2, 5, 0, 4500)
    )
    kept = carry.still_needed(rows, {(1, 0): 19, (1, 1): 1})
    assert kept["position"].tolist() == [4400, 4500]  # of partition 2 nobody told


def test_a_part_is_that_of_named_partitions_from_an_offset_on() -> None:
    [segment] = sealed(files := ForgetfulFiles(), 1)
    found = [carry.part_of(files, segment, {(1, part): 0}) for part in (0, 1, 2)]
    assert found == [(3 << 20, 1), (3 << 20, 1), (0, 0)]
    assert carry.part_of(files, segment, {(1, 0): 0, (1, 1): 0}) == (6 << 20, 2)
    assert carry.part_of(files, segment, {(1, 0): 1, (1, 1): 0}) == (3 << 20, 1)


def sealed(files: ForgetfulFiles, count: int) -> list[SealedSegment]:
    """Sealed segments with one batch of each of the partitions 0 and 1, 3 MiB each;
    a second goes by before each is sealed, and before the next one is begun."""
    clock = ManualClock()
    driver = Driver(files, segment_bytes=8 << 20, clock=clock)
    for number in range(count):
        driver.finish([driver.append(3 << 20, part) for part in (0, 1)])
        clock.advance(1_000)
        driver.wal.roll()
        driver.until(lambda number=number: len(driver.sealed) > number)
        clock.advance(1_000)
    found = driver.wal._segments.all()
    return [each for each in found if isinstance(each, SealedSegment)]


def slot_of(files: ForgetfulFiles, written: int = 0) -> Slot:
    path = WAL / "segment-0099.log"
    file = files.create(path)
    files.allocate(file, 8 << 20)
    return Slot(99, path, file, 8 << 20, written)


def whole(steps: Steps) -> tuple[SealedSegment, Carried]:
    """What is written when all steps were taken."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("written", [0, 8 << 20])
def test_a_carried_segment_is_as_old_as_those_that_it_replaces(written: int) -> None:
    """By its age it is kept or goes; and what was written needs no zeros again."""
    files = ForgetfulFiles()
    sources = sealed(files, 3)
    kept = [carry.kept_of(files, each, {(1, 1): 3}) for each in sources[:2]]
    slot = slot_of(files, written)
    segment, _ = whole(carry.write(files, slot, sources[1].sequence + 1, kept))
    times = sources[0].info.created_ms, sources[1].info.sealed_at_ms
    assert times[1] - times[0] == 3_000
    assert (segment.info.created_ms, segment.info.sealed_at_ms) == times
    identity = identity_of(files, slot.file)
    seal = SegmentFile(files, slot.file, segment.sequence).seal()
    assert identity is not None
    assert seal is not None
    assert (identity.created_ms, seal.sealed_at_ms) == times
    assert slot.written == max(written, segment.info.bytes)


def test_a_segment_in_which_damage_was_found_is_not_carried() -> None:
    """Its footer is right, but who knows what else is not."""
    files = ForgetfulFiles()
    [source] = sealed(files, 1)
    damaged = replace(source, info=replace(source.info, intact=False))
    with pytest.raises(carry.NotCarried, match="damaged"):
        carry.kept_of(files, damaged, {(1, 0): 1, (1, 1): 1})


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_written_verifies_and_says_where_it_came_from(count: int) -> None:
    files = ForgetfulFiles()
    sources = sealed(files, count)
    kept = [carry.kept_of(files, each, {(1, 1): count}) for each in sources]
    assert carry.bytes_of(kept) == HEADER_BLOCK_BYTES + count * ((3 << 20) + 48 + 36)
    steps = carry.write(files, slot_of(files), sources[-1].sequence + 1, kept)
    pieces = 0
    while True:
        try:
            next(steps)
            pieces += 1
        except StopIteration as end:
            segment, carried = end.value
            break
    assert pieces == count  # a batch is not cut
    assert carried.sequences == tuple(each.sequence for each in sources)
    assert segment.info.ranges == {(1, 0): (0, count)}
    assert carried.bytes == segment.info.bytes
    assert set(carried.moves) == {(1, 0)}
    old, new = carried.moves[1, 0]
    assert [sequence_of(int(place)) for place in old] == list(carried.sequences)
    found = SegmentFile(files, segment.slot.file, segment.sequence)
    seal = found.seal()
    assert seal is not None
    rows = found.footer(seal)
    assert rows is not None
    assert [int(place) & 0xFFFFFFFF for place in new] == rows["position"].tolist()
    assert list(found.faults(rows, 0, segment.info.bytes)) == []
    identity = identity_of(files, segment.slot.file)
    assert identity is not None
    assert identity.sequence == segment.sequence
    walked = found.scan(segment.info.bytes, durable_end=segment.info.bytes)
    assert rows_of(bytes(walked.rows)).tolist() == rows.tolist()


def test_a_segment_whose_footer_is_damaged_is_not_carried() -> None:
    files = ForgetfulFiles()
    [source] = sealed(files, 1)
    files.pwritev(source.slot.file, [b"\xff"], source.info.bytes)
    with pytest.raises(carry.NotCarried, match="damaged"):
        carry.kept_of(files, source, {})


def test_small_batches_are_copied_a_piece_at_a_time() -> None:
    rows = np.zeros(2_500, ROW_TYPE)
    rows["length"] = 100
    assert [len(piece) for piece in carry._pieces(rows)] == [1_000, 1_000, 500]
    assert carry._pieces(rows[:0]) == []
