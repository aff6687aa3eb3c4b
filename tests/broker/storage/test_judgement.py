"""What counts of one segment: by its seal, its successor, and what was noted of it."""

import pytest

from broker.storage.columns import ROW_BYTES
from broker.storage.committed_position import CommittedPosition
from broker.storage.entry import ENTRY_HEADER_BYTES, location_of
from broker.storage.files import Files
from broker.storage.judgement import POSITION_MAX, FoundSegment, SegmentJudgement
from broker.storage.layout import HEADER_BLOCK_BYTES, SEAL_AT
from broker.storage.manifest import Manifest
from broker.storage.segment import DamagedExtent, Slot
from tests.broker.storage.driver import WAL, Driver
from tests.support.files import ForgetfulFiles

NUMBER = 4
STRIDE = 500 + ENTRY_HEADER_BYTES
ENDS = [HEADER_BLOCK_BYTES + n * STRIDE for n in range(4)]
END = ENDS[-1]


@pytest.fixture
def files() -> Files:
    """A sealed segment of three batches of 500 bytes in ``x``, written together."""
    driver = Driver(ForgetfulFiles())
    driver.finish([driver.append(size=500) for _ in range(3)])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    (info,) = driver.wal.segments()
    assert (info.sequence, info.bytes) == (NUMBER, END)
    driver.close()
    driver.files.rename(info.path, WAL / "x")
    return driver.files


def damage(files: Files, position: int) -> None:
    file = files.open(WAL / "x")
    (byte,) = files.pread(file, 1, position)
    files.pwritev(file, [bytes([byte ^ 1])], position)
    files.close(file)


def judged(
    files: Files,
    *,
    noted: CommittedPosition | None = None,
    is_last: bool = False,
    extent: DamagedExtent | None = None,
) -> tuple[SegmentJudgement, FoundSegment, list[int]]:
    """The judgement, the segment, and the offsets that count."""
    file = files.open(WAL / "x")
    slot = Slot(1, WAL / "x", file, files.size(file))
    segment = FoundSegment(NUMBER, slot, 0)
    judgement = SegmentJudgement(files, segment)
    manifest = Manifest(damaged={} if extent is None else {NUMBER: extent})
    rows = judgement.rows(manifest, noted, is_last=is_last)
    rows = judgement.verified(rows, HEADER_BLOCK_BYTES)
    return judgement, segment, rows["base"].tolist()


def lost(start: int, end: int) -> tuple[int, int, bool]:
    return location_of(NUMBER, start), location_of(NUMBER, end), True


@pytest.mark.parametrize("is_last", [False, True])
def test_a_sealed_segment_is_known_by_its_footer(
    files: Files, *, is_last: bool
) -> None:
    judgement, segment, offsets = judged(files, is_last=is_last)
    assert offsets == [0, 1, 2]
    assert (segment.end, segment.is_sealed, segment.intact) == (END, True, True)
    assert (judgement.damage, judgement.lost, judgement.torn) == ([], [], None)


def test_a_batch_of_it_that_does_not_verify_is_lost_with_its_offsets(
    files: Files,
) -> None:
    damage(files, ENDS[1] + 200)
    judgement, segment, offsets = judged(files)
    assert (offsets, segment.intact, segment.is_sealed) == ([0, 2], False, True)
    at = ENDS[1] + ENTRY_HEADER_BYTES
    assert judgement.lost == [lost(at, at + 1)]
    assert judgement.lost_ranges == {(1, 0): (1, 2)}
    assert len(judgement.damage) == 1


@pytest.mark.parametrize("is_last", [False, True])
def test_a_footer_may_be_wrong_only_in_the_last(files: Files, *, is_last: bool) -> None:
    damage(files, END + ROW_BYTES)
    judgement, segment, offsets = judged(files, is_last=is_last)
    assert (offsets, segment.end, segment.is_sealed) == ([0, 1, 2], END, False)
    assert segment.intact == is_last
    assert bool(judgement.damage) != is_last


@pytest.mark.parametrize("is_last", [False, True])
def test_behind_a_segment_without_seal_and_successor_nothing_can_have_stood(
    files: Files, *, is_last: bool
) -> None:
    damage(files, SEAL_AT)
    judgement, segment, offsets = judged(files, is_last=is_last)
    assert (offsets, segment.end, segment.is_end_known) == ([0, 1, 2], END, is_last)
    assert judgement.lost == ([] if is_last else [lost(END, POSITION_MAX)])
    unclaimed = location_of(NUMBER, POSITION_MAX)
    assert judgement.unclaimed_below == (0 if is_last else unclaimed)
    assert len(judgement.damage) == (0 if is_last else 1)


@pytest.mark.parametrize("is_header", [False, True])
def test_a_damaged_place_is_unclaimed_where_its_header_is_damaged_too(
    files: Files, *, is_header: bool
) -> None:
    damage(files, END + ROW_BYTES)
    damage(files, ENDS[1] + (20 if is_header else 200))
    judgement, _, offsets = judged(files)
    assert (offsets, judgement.lost) == ([0, 2], [lost(ENDS[1], ENDS[2])])
    assert judgement.unclaimed_below == is_header * location_of(NUMBER, ENDS[2])
    assert judgement.lost_ranges == ({} if is_header else {(1, 0): (1, 2)})


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_tail_is_torn_unless_the_position_says_that_it_was_durable(
    files: Files, *, is_noted: bool
) -> None:
    damage(files, SEAL_AT)
    damage(files, ENDS[1] + 200)
    noted = CommittedPosition(NUMBER, END) if is_noted else None
    judgement, segment, offsets = judged(files, noted=noted, is_last=True)
    assert offsets == ([0, 2] if is_noted else [0])
    assert (judgement.torn is None) == is_noted
    assert judgement.lost == ([lost(ENDS[1], ENDS[2])] if is_noted else [])
    assert segment.holes == (((ENDS[1], ENDS[2]),) if is_noted else ())


def test_what_was_refused_does_not_count(files: Files) -> None:
    damage(files, SEAL_AT)
    noted = CommittedPosition(NUMBER, ENDS[2], final=True)
    _, segment, offsets = judged(files, noted=noted, is_last=True)
    assert (offsets, segment.end) == ([0, 1], ENDS[2])


def test_what_an_earlier_start_wrote_down_counts_before_the_seal(files: Files) -> None:
    extent = DamagedExtent(ENDS[2], ((ENDS[0], ENDS[1]),))
    judgement, segment, offsets = judged(files, extent=extent)
    assert (offsets, segment.end, segment.is_sealed) == ([1], ENDS[2], False)
    assert (segment.intact, segment.is_end_known) == (False, True)
    assert judgement.lost == [lost(ENDS[0], ENDS[1])]
