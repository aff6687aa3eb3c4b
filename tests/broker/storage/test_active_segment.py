"""A segment while it is written, and what its seal makes of it."""

import errno

import pytest

from broker.storage.active_segment import ActiveSegment
from broker.storage.columns import pack_row, rows_of
from broker.storage.entry import Append, location_of, pack_entry
from broker.storage.files import Buffer
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.segment import SealedSegment, Slot, slot_name
from broker.storage.segment_file import SegmentFile, identity_of
from tests.broker.storage.driver import SEGMENT_BYTES, WAL, an_append, batch
from tests.support.files import ForgetfulFiles, nothing

SEQUENCE = 6
NO_ROWS = rows_of(b"")


def a_segment(files: ForgetfulFiles) -> ActiveSegment:
    path = WAL / slot_name(3)
    file = files.create(path)
    files.allocate(file, SEGMENT_BYTES)
    files.fsync_dir(WAL)
    return ActiveSegment(files, Slot(3, path, file, SEGMENT_BYTES), SEQUENCE, 70)


def packed(
    segment: ActiveSegment, group: list[Append]
) -> tuple[list[Buffer], list[bytes], int]:
    """The parts and footer rows of these batches behind the segment's end."""
    parts: list[Buffer] = []
    rows: list[bytes] = []
    position = segment.end
    for append in group:
        parts += [pack_entry(append, SEQUENCE, segment.synced, position), append.batch]
        rows.append(pack_row(append, position + 48, len(append.batch)))
        position += 48 + len(append.batch)
    return parts, rows, position


def write(segment: ActiveSegment, group: list[Append], *, sync: bool = True) -> None:
    parts, rows, end = packed(segment, group)
    segment.write(parts, end, sync=sync)
    segment.add_appends(group, rows)


def test_what_is_written_counts_only_when_it_is_added() -> None:
    segment = a_segment(ForgetfulFiles())
    group = [an_append(batch(n, 200), partition=n % 2) for n in range(4)]
    parts, rows, end = packed(segment, group)
    segment.write(parts, end, sync=True)
    assert segment.empty
    assert segment.info(NO_ROWS).ranges == {}
    segment.add_appends(group, rows)
    assert segment.end == end
    place = HEADER_BLOCK_BYTES + 48
    assert [one.location for one in group] == [
        location_of(SEQUENCE, place + n * 248) for n in range(4)
    ]
    info = segment.info(NO_ROWS)
    assert (info.sealed, info.bytes, info.created_ms) == (False, end, 70)
    assert info.ranges == {(1, 0): (0, 3), (1, 1): (1, 4)}


def test_a_write_without_a_sync_does_not_survive_and_one_with_it_does() -> None:
    files = ForgetfulFiles()
    segment = a_segment(files)
    write(segment, [an_append(batch(0))])
    kept = segment.end
    write(segment, [an_append(batch(1))], sync=False)

    def end_after_power_cut() -> int:
        left = files.after_power_cut(nothing)
        found = SegmentFile(left, left.open(segment.slot.path), SEQUENCE)
        return found.scan(SEGMENT_BYTES, durable_end=0).end

    assert end_after_power_cut() == kept
    segment.sync()
    assert end_after_power_cut() == segment.end > kept


def test_a_write_that_fails_changes_nothing() -> None:
    files = ForgetfulFiles()
    segment = a_segment(files)
    write(segment, [an_append(batch(0))])
    before = segment.info(NO_ROWS)
    files.fail("fdatasync", OSError(errno.EIO, "the disk is dying"))
    with pytest.raises(OSError, match="dying"):
        write(segment, [an_append(batch(1))])
    assert segment.info(NO_ROWS) == before


def test_what_others_see_of_it_stays_as_it_was_when_they_looked() -> None:
    segment = a_segment(ForgetfulFiles())
    write(segment, [an_append(batch(0))])
    before = segment.info(NO_ROWS)
    write(segment, [an_append(batch(1)), an_append(batch(0), partition=1)])
    assert before.ranges == {(1, 0): (0, 1)}
    assert segment.info(NO_ROWS).ranges == {(1, 0): (0, 2), (1, 1): (0, 1)}


def test_rows_that_it_has_not_heard_of_are_seen_and_twice_is_once() -> None:
    """The loop asks for them, and the writer's thread may add them meanwhile."""
    segment = a_segment(ForgetfulFiles())
    write(segment, [an_append(batch(0))])
    group = [an_append(batch(1)), an_append(batch(0), partition=1)]
    parts, rows, end = packed(segment, group)
    segment.write(parts, end, sync=True)
    pending = b"".join(rows)
    seen = segment.info(rows_of(pending))
    assert seen.bytes == end
    assert seen.ranges == {(1, 0): (0, 2), (1, 1): (0, 1)}
    assert segment.end < end
    segment.add_rows(pending)
    assert segment.info(NO_ROWS) == segment.info(rows_of(pending)) == seen
    write(segment, [an_append(batch(2))])
    late = segment.info(rows_of(pending))
    assert (late.bytes, late.ranges[1, 0]) == (segment.end, (0, 3))


def test_a_sealed_one_is_whole_on_the_disk_and_does_not_change() -> None:
    files = ForgetfulFiles()
    active = a_segment(files)
    group = [an_append(batch(n)) for n in range(3)]
    write(active, group)
    segment = active.seal(90)
    assert isinstance(segment, SealedSegment)
    info = segment.info
    assert (info.sealed, info.batches, info.sealed_at_ms) == (True, 3, 90)
    assert (info.bytes, info.ranges) == (active.end, {(1, 0): (0, 3)})
    assert segment.slot is active.slot
    left = files.after_power_cut(nothing)
    file = left.open(segment.slot.path)
    identity = identity_of(left, file)
    assert identity is not None
    assert (identity.sequence, identity.created_ms) == (SEQUENCE, 70)
    found = SegmentFile(left, file, SEQUENCE)
    seal = found.seal()
    assert seal is not None
    rows = found.footer(seal)
    assert rows is not None
    assert rows["base"].tolist() == [0, 1, 2]
    assert list(found.faults(rows, 0, seal.data_end)) == []
    with pytest.raises(AttributeError):
        segment.carried = True  # type: ignore[misc]


def test_the_footer_has_its_room() -> None:
    segment = a_segment(ForgetfulFiles())
    assert segment.room_end == SEGMENT_BYTES
    write(segment, [an_append(batch(n)) for n in range(5)])
    assert segment.room_end == SEGMENT_BYTES - len(segment.rows) == SEGMENT_BYTES - 180
