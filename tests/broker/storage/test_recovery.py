"""Damage in the middle is named and kept; what can be read is read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.records.batch import seal
from broker.records.markers import Marker, marker_batch
from broker.storage import segment_file
from broker.storage.columns import Ints
from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    Append,
    location_of,
    position_of,
    sequence_of,
)
from broker.storage.layout import Identity, pack_identity
from broker.storage.manifest import pack, unpack
from broker.storage.many_entries import Bools
from broker.storage.recovery import recover
from tests.broker.storage.driver import WAL, Driver, an_append, held
from tests.support.files import ForgetfulFiles, Inode


def a_log(
    rounds: int = 6, *, checkpoint: bool = False
) -> tuple[ForgetfulFiles, list[Append]]:
    """Groups of one, so that each was durable before the next was written."""
    files = ForgetfulFiles()
    driver = Driver(files)
    appends = []
    for _ in range(rounds):
        appends.append(driver.append(size=1000))
        driver.finish(appends[-1:])
    if checkpoint:
        driver.wal.checkpoint(b"state")
    driver.close()
    return files.after_kill(), appends


def damage(files: ForgetfulFiles, name: str, position: int, data: bytes) -> None:
    node = file_of(files, name)
    node.data[position : position + len(data)] = data
    node.durable = bytes(node.data)


def file_of(files: ForgetfulFiles, name: str) -> Inode:
    return files.names[WAL / name]


def slot_of(files: ForgetfulFiles, append: Append) -> str:
    """The name of the file that holds this batch."""
    for path, node in files.names.items():
        if bytes(append.batch) in bytes(node.data):
            return path.name
    raise AssertionError("no file holds it")


def places(appends: list[Append]) -> tuple[int, ...]:
    """Where their entries begin."""
    return tuple(one.location - ENTRY_HEADER_BYTES for one in appends)


def test_an_empty_directory_is_an_empty_log() -> None:
    driver = Driver(ForgetfulFiles())
    assert driver.recovery.payload is None
    assert driver.recovery.columns == {}
    assert list(driver.recovery.replay) == []
    assert (driver.recovery.torn, driver.recovery.damage) == (None, [])
    driver.close()


def test_everything_is_replayed_in_order_of_writing() -> None:
    files, appends = a_log(40)
    driver = Driver(files)
    assert [
        (header.base_offset, location)
        for _, _, header, location, _ in driver.recovery.replay
    ] == [(one.base_offset, one.location) for one in appends]
    driver.close()


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_marker_says_is_read_again(damaged: bool) -> None:
    files = ForgetfulFiles()
    driver = Driver(files)
    batch = marker_batch(7, 0, Marker(False, 3), 1_000)
    if damaged:  # by a version of the program that writes them in another way
        batch[68] ^= 1
        seal(batch)
    one = an_append(bytes(batch), done=driver.finished.append)
    driver.wal.append(one)
    driver.finish([one])
    driver.close()
    driver = Driver(files.after_kill())
    (found,) = driver.recovery.replay
    assert found.header.is_control
    assert found.marker == (None if damaged else Marker(False, 3))
    driver.close()


def test_what_the_checkpoint_covers_is_not_replayed() -> None:
    files, appends = a_log(20, checkpoint=True)
    driver = Driver(files)
    assert driver.recovery.payload == b"state"
    assert list(driver.recovery.replay) == []
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()


def test_a_restart_without_appends_changes_nothing() -> None:
    files, appends = a_log(20)
    for _ in range(5):
        driver = Driver(files)
        assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
        assert driver.recovery.damage == []
        driver.close()
        files = files.after_kill()


@pytest.mark.parametrize("at", [4, 30, 45, 60, 100, 900])
def test_damage_in_the_middle_is_named_and_what_is_behind_it_is_kept(at: int) -> None:
    files, appends = a_log(6)
    name = slot_of(files, appends[0])
    damage(files, name, 4096 + 2 * 1048 + at, b"\xde\xad\xbe\xef")
    driver = Driver(files)
    (text,) = driver.recovery.damage
    assert f"bytes {4096 + 2 * 1048} to {4096 + 3 * 1048}" in text
    assert driver.recovery.lost == [(*places(appends[2:4]), True)]
    kept = [one.batch for one in appends if one is not appends[2]]
    assert held(driver.recovery, driver.wal)[1, 0] == kept
    driver.next_offset[1, 0] = 6
    after = driver.append(size=300)
    driver.finish([after])
    assert sequence_of(after.location) != sequence_of(appends[0].location)
    driver.close()
    again = Driver(files.after_kill())
    assert text in again.recovery.damage
    assert len(held(again.recovery, again.wal)[1, 0]) == 6
    again.close()


def test_a_damaged_segment_that_is_released_is_put_aside() -> None:
    files, appends = a_log(6)
    name = slot_of(files, appends[0])
    damage(files, name, 4096 + 1048 + 200, b"\0\0\0\0")
    driver = Driver(files)
    assert [info.sealed for info in driver.wal.segments()] == [True]
    driver.wal.release(sequence_of(appends[0].location))
    driver.wal.checkpoint(b"")
    driver.until(lambda: not driver.numbers())
    driver.close()
    assert WAL / f"damaged-{sequence_of(appends[0].location)}.log" in files.names
    assert WAL / name not in files.names


def test_damage_in_the_last_durable_entry_is_no_torn_tail() -> None:
    """Nothing valid follows it, but the committed position says that it was durable."""
    files, appends = a_log(4)
    damage(files, slot_of(files, appends[3]), 4096 + 3 * 1048 + 500, b"\0\0\0\0")
    driver = Driver(files)
    assert driver.recovery.torn is None
    assert len(driver.recovery.damage) == 1
    driver.close()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("at", "is_named", "is_known"),
    [
        (ENTRY_HEADER_BYTES + 500, True, True),
        (ENTRY_HEADER_BYTES + 24, True, False),
        (20, False, False),
    ],
    ids=["records", "count", "header"],
)
def test_what_an_entrys_header_says_of_a_damaged_batch_is_not_given_again(
    at: int, is_named: bool, is_known: bool, again: bool
) -> None:
    """Only where the header is damaged as well nothing says whose it was; and where the
    batch's is, nothing proves how many there were."""
    files, appends = a_log(4)
    place = 4096 + 3 * 1048 + at
    damage(files, slot_of(files, appends[3]), place, b"\xff\xff\0\xff")
    driver = Driver(files)
    if again:  # before a checkpoint tells it
        driver.close()
        driver = Driver(files.after_kill())
    end = appends[3].last_offset + 1
    assert driver.recovery.lost_ends == ({(1, 0): end} if is_named else {})
    assert (driver.recovery.unclaimed_below == 0) == is_known
    driver.close()


@pytest.mark.parametrize("at", [500, ENTRY_HEADER_BYTES + 25], ids=["records", "count"])
def test_damage_before_one_that_is_whole_takes_no_offsets_away(at: int) -> None:
    """Be it what says how many there were: where the next one begins they end."""
    files, appends = a_log(4)
    damage(files, slot_of(files, appends[1]), 4096 + 1048 + at, b"\0\x80")
    driver = Driver(files)
    assert driver.recovery.lost_ends == {(1, 0): appends[1].last_offset + 1}
    assert len(driver.recovery.columns[1, 0]) == 3
    driver.close()


def test_without_a_committed_position_the_last_entry_counts_as_torn() -> None:
    files, appends = a_log(4)
    damage(files, slot_of(files, appends[3]), 4096 + 3 * 1048 + 500, b"\0\0\0\0")
    damage(files, "horizon", 0, b"\0" * 28)
    driver = Driver(files)
    assert driver.recovery.torn is not None
    assert driver.recovery.damage == []
    assert len(driver.recovery.columns[1, 0]) == 3
    driver.close()


@pytest.mark.parametrize("lost", [(), ("checkpoint",), ("checkpoint", "horizon")])
def test_all_is_there_where_the_first_segment_is_and_no_checkpoint_was_made(
    lost: tuple[str, ...],
) -> None:
    files, appends = a_log(40)
    for name in lost:
        del files.names[WAL / name]
    for _ in range(2):  # the second one has the manifest of the first
        driver = Driver(files)
        assert driver.recovery.has_all
        driver.close()
        files = driver.wal._files.after_kill()
    del files.names[WAL / slot_of(files, appends[0])]
    driver = Driver(files)
    assert not driver.recovery.has_all
    driver.close()


def test_not_all_may_be_there_where_a_checkpoint_was_made() -> None:
    files, _ = a_log(40, checkpoint=True)
    driver = Driver(files)
    assert not driver.recovery.has_all
    driver.close()


def test_a_missing_segment_is_named() -> None:
    files, appends = a_log(40)
    first, last = appends[0], appends[-1]
    assert sequence_of(last.location) > sequence_of(first.location) + 1
    del files.names[WAL / slot_of(files, first)]
    driver = Driver(files)
    assert driver.recovery.damage == [
        f"segment {sequence_of(first.location)}: its file is missing"
    ]
    sequence = sequence_of(first.location)
    place = location_of(sequence, 0), location_of(sequence + 1, 0), False
    assert driver.recovery.lost == [place]
    assert driver.recovery.unclaimed_below == place[1]
    driver.close()


def test_what_was_released_before_the_checkpoint_was_lost_is_never_named() -> None:
    """Of a number that is missing then nobody knows what it was; it is a place where
    something may be lost at each start until there is a checkpoint, and no alarm. What
    goes after the loss is named."""
    files, appends = a_log(60)
    numbers = sorted({sequence_of(one.location) for one in appends})
    assert len(numbers) > 3
    of = {sequence_of(one.location): one for one in appends}
    del (
        files.names[WAL / slot_of(files, of[numbers[1]])],
        files.names[WAL / "checkpoint"],
    )
    place = location_of(numbers[1], 0), location_of(numbers[1] + 1, 0), False
    for text in ("the checkpoint is missing; replaying all", None, None):
        driver = Driver(files)
        assert driver.recovery.damage == ([text] if text else [])
        assert driver.recovery.lost == [place]
        driver.close()
        files = driver.wal._files.after_kill()
    del files.names[WAL / slot_of(files, of[numbers[2]])]
    driver = Driver(files)
    text = f"segment {numbers[2]}: its file is missing"
    assert driver.recovery.damage == [text]
    driver.wal.checkpoint(b"state")
    driver.close()
    driver = Driver(driver.wal._files.after_kill())
    assert (driver.recovery.damage, driver.recovery.lost) == ([], [])
    driver.close()


def test_the_last_segment_may_have_been_released_where_the_checkpoint_is_lost() -> None:
    """The committed position names it. It is told until there is a checkpoint."""
    files, appends = a_log(40)
    number = sequence_of(appends[-1].location)
    del files.names[WAL / slot_of(files, appends[-1])], files.names[WAL / "checkpoint"]
    text = f"segment {number}: its file is missing"
    why = ", or it was released: there is no checkpoint that would tell"
    for texts in (["the checkpoint is missing; replaying all", text + why], [text]):
        driver = Driver(files)
        assert driver.recovery.damage == texts
        ((start, _, _),) = driver.recovery.lost
        assert sequence_of(start) == number
        driver.close()
        files = driver.wal._files.after_kill()


def test_an_older_checkpoint_is_one_line_however_much_was_released_since() -> None:
    """And one place where something may be lost."""
    files, appends = a_log(60, checkpoint=True)
    older = bytes(file_of(files, "checkpoint").data)
    first, *between, _ = sorted({sequence_of(one.location) for one in appends})
    of = {sequence_of(one.location): one for one in appends}
    manifest = unpack(older).with_live(frozenset({first}), first)
    files.names[WAL / "checkpoint"] = node = Inode()
    node.write(0, pack(replace(manifest, sequence=first, position=4096)))
    node.durable = bytes(node.data)
    for each in between:
        del files.names[WAL / slot_of(files, of[each])]
    driver = Driver(files)
    assert driver.recovery.damage == [
        f"segments {between[0]} to {between[-1]}: their files are missing, "
        "or the checkpoint is an older copy"
    ]
    start, end = location_of(between[0], 0), location_of(between[-1] + 1, 0)
    assert driver.recovery.lost == [(start, end, False)]
    assert driver.recovery.unclaimed_below == end
    driver.close()
    driver = Driver(driver.wal._files.after_kill())
    assert driver.recovery.damage == [
        f"segments {between[0]} to {between[-1]}: their files are missing"
    ]
    driver.close()


def test_the_last_segment_missing_is_named_too() -> None:
    files, appends = a_log(40)
    del files.names[WAL / slot_of(files, appends[-1])]
    driver = Driver(files)
    assert driver.recovery.damage == [
        f"segment {sequence_of(appends[-1].location)}: its file is missing"
    ]
    ((start, _, damaged),) = driver.recovery.lost
    assert (sequence_of(start), damaged) == (sequence_of(appends[-1].location), False)
    driver.close()


def test_a_lost_identity_is_found_again_by_the_entries() -> None:
    files, appends = a_log(40)
    damage(files, slot_of(files, appends[0]), 0, b"\xff" * 512)
    driver = Driver(files)
    assert len(driver.recovery.damage) == 1
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()


@pytest.mark.parametrize("listed", [True, False])
def test_a_lost_identity_of_a_segment_with_one_group_is_found_again(
    listed: bool,
) -> None:
    """No entry says that another was durable, but the segment has a successor."""
    files = ForgetfulFiles()
    driver = Driver(files)
    appends = []
    for _ in range(3):
        appends.append(driver.append(size=1000))
        driver.finish(appends[-1:])
        driver.wal.roll()
    driver.close()
    left = files.after_kill()
    damage(left, slot_of(left, appends[1]), 0, b"\xff" * 512)
    if not listed:
        del left.names[WAL / "checkpoint"]
    driver = Driver(left)
    number = sequence_of(appends[1].location)
    text = f"segment {number}: its first sector is unreadable"
    assert driver.recovery.damage[-1:] == [text]
    assert driver.recovery.lost == []
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()


def first_pages_lost(named: int) -> tuple[ForgetfulFiles, list[Append], int]:
    """A log whose first segment's file begins with zeros for two pages, or names
    another segment, as before it was used; the batches that are left, and its
    number."""
    files, appends = a_log(40)
    head = pack_identity(Identity(named, 16 << 10, 1)) if named else bytes(8192)
    damage(files, slot_of(files, appends[0]), 0, head)
    kept = [
        one
        for one in appends
        if named
        or sequence_of(one.location) > sequence_of(appends[0].location)
        or position_of(one.location) >= 8192 + ENTRY_HEADER_BYTES
    ]
    return files, kept, sequence_of(appends[0].location)


@pytest.mark.parametrize("named", [0, 2])
def test_what_lies_whole_behind_first_pages_that_are_lost_is_served_for_ever(
    named: int,
) -> None:
    files, kept, number = first_pages_lost(named)
    for _ in range(2):
        driver = Driver(files)
        why = f"segment {named}'s" if named else "unreadable"
        assert (
            driver.recovery.damage[0] == f"segment {number}: its first sector is {why}"
        )
        there = held(driver.recovery, driver.wal)[1, 0]
        assert there[: len(kept)] == [bytes(one.batch) for one in kept]
        driver.next_offset[1, 0] = kept[-1].last_offset + len(there) - len(kept) + 1
        driver.finish([driver.append(size=1000) for _ in range(30)])
        driver.close()
        files = files.after_kill()


@pytest.mark.parametrize("unnamed", ["", "the fuller", "the copy"])
@pytest.mark.parametrize("copy", ["segment-0099.log", "segment-0010.log"])
def test_of_two_files_of_a_segment_the_fuller_counts_and_the_other_is_put_aside(
    copy: str, unnamed: str
) -> None:
    """Somebody made a copy while it was written. Neither is overwritten."""
    files, appends = a_log(6)
    original, node = "segment-0050.log", Inode()
    files.names[WAL / original] = files.names.pop(WAL / slot_of(files, appends[0]))
    node.write(0, bytes(file_of(files, original).data))
    files.names[WAL / copy] = node
    damage(files, copy, position_of(appends[2].location), bytes(4 * 1048))
    if unnamed:
        damage(files, copy if "copy" in unnamed else original, 0, b"\xff" * 512)
    driver = Driver(files)
    assert any(
        "and is put aside as damaged-4-" in one for one in driver.recovery.damage
    )
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()
    left = files.after_kill()
    assert not any(path.name == copy for path in left.names)
    driver = Driver(left)
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()


@pytest.mark.parametrize("lost", [(), ("horizon",)])
def test_an_equal_copy_of_a_segments_file_is_no_damage(lost: tuple[str, ...]) -> None:
    """It is a free file, though one is looked for that may have been begun."""
    files, appends = a_log(6)
    node = Inode()
    node.write(0, bytes(file_of(files, slot_of(files, appends[0])).data))
    node.durable = bytes(node.data)
    files.names[WAL / "segment-0099.log"] = node
    for name in lost:
        del files.names[WAL / name]
    driver = Driver(files)
    assert driver.recovery.damage == []
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    driver.close()


def test_a_segment_that_was_cut_short_keeps_what_is_left() -> None:
    files, appends = a_log(40)
    node = file_of(files, slot_of(files, appends[0]))
    del node.data[4096 + 3 * 1048 + 10 :]
    driver = Driver(files)
    assert driver.recovery.damage
    there = held(driver.recovery, driver.wal)[1, 0]
    assert there[:3] == [one.batch for one in appends[:3]]
    assert there[-1] == appends[-1].batch
    driver.close()


def test_a_damaged_checkpoint_is_put_aside_and_all_is_replayed() -> None:
    files, appends = a_log(10, checkpoint=True)
    damage(files, "checkpoint", 20, b"\xff")
    driver = Driver(files)
    assert len(driver.recovery.damage) == 1
    assert len(driver.recovery.replay) == len(appends)
    assert WAL / "checkpoint.damaged" in files.names
    driver.close()


def test_a_missing_checkpoint_is_told() -> None:
    files, appends = a_log(10, checkpoint=True)
    del files.names[WAL / "checkpoint"]
    driver = Driver(files)
    assert "checkpoint is missing" in driver.recovery.damage[0]
    assert len(driver.recovery.replay) == len(appends)
    driver.close()


def flip(node: Inode, bit: int) -> None:
    node.data[bit // 8] ^= 1 << bit % 8


def cut(node: Inode, bit: int) -> None:
    del node.data[bit // 8 :]


@pytest.mark.parametrize("harm", [flip, cut])
@settings(max_examples=150, deadline=None)
@given(choice=st.integers(0, 2**32))
def test_no_damage_stops_a_start_or_is_served(
    harm: Callable[[Inode, int], None], choice: int
) -> None:
    """One bit, or a cut, anywhere in any file: the rest is served, as it was."""
    files, appends = a_log(16)
    paths = sorted(files.names)
    node = files.names[paths[choice % len(paths)]]
    used = [i for i, byte in enumerate(node.data) if byte]
    if not used:
        return
    harm(node, used[choice // 7 % len(used)] * 8 + choice % 8)
    driver = Driver(files)
    there = held(driver.recovery, driver.wal).get((1, 0), [])
    sent = [one.batch for one in appends]
    assert all(data in sent for data in there)
    if len(there) < len(sent):
        assert driver.recovery.damage
    driver.close()


def test_a_batch_of_a_sealed_segment_that_does_not_verify_leaves_its_place() -> None:
    files, appends = a_log(40)
    damage(files, slot_of(files, appends[1]), 4096 + 1048 + 200, b"\0\0\0\0")
    driver = Driver(files)
    place = appends[1].location
    assert driver.recovery.lost == [(place, place + 1, True)]
    assert len(driver.recovery.columns[1, 0]) == 39
    driver.close()


def test_behind_a_segment_that_was_cut_short_anything_may_be_lost() -> None:
    files, appends = a_log(40)
    node = file_of(files, slot_of(files, appends[0]))
    del node.data[4096 + 3 * 1048 + 10 :]
    driver = Driver(files)
    ((start, end, damaged),) = driver.recovery.lost
    follower = next(
        one
        for one in appends
        if sequence_of(one.location) > sequence_of(appends[0].location)
    )
    assert appends[2].location < start
    assert end < follower.location
    assert damaged
    assert driver.recovery.unclaimed_below == end
    driver.close()


def test_a_file_that_was_cut_behind_its_last_batch_is_not_used_again() -> None:
    """All batches are there, but somebody has laid hands on it."""
    files, appends = a_log(4)
    node = file_of(files, slot_of(files, appends[0]))
    del node.data[-10:]
    node.durable = bytes(node.data)
    driver = Driver(files)
    (text,) = driver.recovery.damage
    assert f"has {len(node.data)} bytes, not {len(node.data) + 10}" in text
    assert held(driver.recovery, driver.wal)[1, 0] == [one.batch for one in appends]
    assert [info.intact for info in driver.wal.segments()] == [False]
    driver.close()


def test_offsets_that_were_given_twice_stop_no_start_and_are_reported() -> None:
    """A segment that was lost came back after its offsets had been given again."""
    files, appends = a_log(4)
    driver = Driver(files)
    again = [driver.append(size=300) for _ in range(2)]
    driver.finish(again)
    driver.close()
    driver = Driver(files.after_kill())
    assert driver.recovery.damage == [
        "offsets are in two segments: one batch of each counts"
    ]
    assert driver.recovery.columns[1, 0].base.tolist() == list(range(len(appends)))
    driver.close()


COLUMNS = ("base", "last", "max_timestamp", "location", "length")


def found_in(files: ForgetfulFiles) -> tuple[Any, ...]:
    """All that a start finds, in comparable form."""
    found, recovery = recover(files, WAL)
    columns = {
        key: [getattr(each, name).tolist() for name in COLUMNS]
        for key, each in recovery.columns.items()
    }
    segments = {
        number: (dict(each.ranges), each.batches, each.intact, each.end, each.holes)
        for number, each in found.segments.items()
    }
    told = recovery.damage, recovery.torn, recovery.lost, recovery.lost_ends
    return columns, list(recovery.replay), told, segments


def nothing_is_sure(_view: memoryview, positions: Ints, *_: int) -> Bools:
    """Of no entry: each of them is asked."""
    return np.zeros(len(positions), bool)


@pytest.fixture(scope="module")
def some_log() -> tuple[ForgetfulFiles, int]:
    """Three sealed segments of three partitions, a checkpoint behind the first; and how
    many batches there are."""
    driver = Driver(ForgetfulFiles())
    for number in range(45):
        size = 100 + 37 * number
        driver.finish([driver.append(size=size, partition=number % 3)])
        if number == 20:
            driver.wal.checkpoint(b"state")
    driver.close()
    return driver.files.after_kill(), 45


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_entries_that_are_verified_together_are_what_each_is(
    some_log: tuple[ForgetfulFiles, int], data: st.DataObject
) -> None:
    """Whatever is damaged, with the checkpoint or without it."""
    files, batches = some_log[0].after_kill(), some_log[1]
    if data.draw(st.booleans(), "no checkpoint"):
        files.names.pop(WAL / "checkpoint")
    segments = sorted(n.name for n in files.names if n.name.startswith("segment-"))
    for _ in range(data.draw(st.integers(0, 3), "damages")):
        name = data.draw(st.sampled_from(segments))
        size = len(file_of(files, name).data)
        place = data.draw(st.integers(0, size - 1))
        damage(files, name, place, data.draw(st.binary(min_size=1, max_size=80)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_file, "whole", nothing_is_sure)
        expected = found_in(files.after_kill())
    assert found_in(files.after_kill()) == expected
    assert sum(len(each[0]) for each in expected[0].values()) <= batches
