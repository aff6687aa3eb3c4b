"""Another process's view: nothing before it is durable, nothing that was let go."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from broker.storage.entry import (
    ENTRY_HEADER_BYTES,
    Append,
    Entry,
    position_of,
    read_entry,
    sequence_of,
)
from broker.storage.files import Files, PosixFiles
from broker.storage.layout import SEAL_AT, Identity, pack_identity
from broker.storage.manifest import (
    ManifestDamaged,
    read_manifest,
    write_manifest,
)
from broker.storage.objects import LocalObjects
from broker.storage.segment import StaleSegment
from broker.storage.store import LocalSegmentStore, SegmentStore, open_store
from tests.broker.storage.driver import (
    SEGMENT_BYTES,
    WAL,
    Driver,
    damaged_last_group,
)
from tests.support.files import ForgetfulFiles


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


def read(store: SegmentStore, location: int, length: int) -> bytes | None:
    """A batch; None if it does not verify."""
    sequence, place = sequence_of(location), position_of(location) - ENTRY_HEADER_BYTES
    with store.opened(sequence) as segment:
        data = segment.read_range(place, ENTRY_HEADER_BYTES + length)
    entry = read_entry(memoryview(data), 0, sequence, len(data), place)
    return data[ENTRY_HEADER_BYTES:] if isinstance(entry, Entry) else None


def seen(reader: SegmentStore) -> dict[tuple[int, int], list[tuple[int, bytes | None]]]:
    found: dict[tuple[int, int], list[tuple[int, bytes | None]]] = {}
    for info in reader.live():
        for key, columns in reader.columns(info.sequence).items():
            found.setdefault(key, []).extend(
                (int(base), read(reader, int(location), int(length)))
                for base, location, length in zip(
                    columns.base, columns.location, columns.length, strict=True
                )
            )
    return found


def expected(
    appends: list[Append],
) -> dict[tuple[int, int], list[tuple[int, bytes | None]]]:
    found: dict[tuple[int, int], list[tuple[int, bytes | None]]] = {}
    for one in appends:
        key = (one.topic_number, one.partition)
        found.setdefault(key, []).append((one.base_offset, bytes(one.batch)))
    return found


def test_a_reader_follows_the_writer_over_all_segments(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    reader = LocalSegmentStore(files, WAL)
    appends: list[Append] = []
    for round_number in range(12):
        appends += [
            driver.append(size=61 + 700 * (i % 3), partition=i % 2)
            for i in range(round_number)
        ]
        driver.finish(appends)
        assert seen(reader) == expected(appends)
    assert len(reader.live()) > 2
    assert reader.live() == driver.wal.segments()
    assert reader.missing == set()
    assert seen(LocalSegmentStore(files, WAL)) == expected(appends)
    assert reader.damage == []
    driver.close()


def test_what_is_written_and_not_synced_is_not_seen(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    durable = driver.append()
    driver.finish([durable])
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", OSError(5, "the disk is dying"))
    driver.finish([driver.append()])
    assert seen(LocalSegmentStore(files, WAL)) == expected([durable])
    driver.close()


def test_a_released_segment_is_not_live_and_its_old_plan_is_stale(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files, spare_segments=0)
    old = driver.append(size=500)
    driver.finish([old])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    reader = LocalSegmentStore(files, WAL)
    assert [info.sequence for info in reader.live()] == [sequence_of(old.location)]
    driver.wal.release(sequence_of(old.location))
    driver.wal.checkpoint(b"")
    driver.until(lambda: not driver.numbers())
    driver.finish([driver.append(size=500)])
    with pytest.raises(StaleSegment):
        read(reader, old.location, 500)
    assert sequence_of(old.location) not in [info.sequence for info in reader.live()]
    driver.close()


def test_a_reader_sees_the_same_after_a_kill_and_a_restart(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    appends = [driver.append(size=900) for _ in range(30)]
    driver.finish(appends)
    killed = files.after_kill()
    reader = LocalSegmentStore(killed, WAL)
    assert seen(reader) == expected(appends)
    again = Driver(killed)
    assert seen(reader) == expected(appends)
    again.close()
    driver.close()


def test_damage_is_reported_and_not_served(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    appends = [driver.append(size=500) for _ in range(3)]
    for one in appends:
        driver.finish([one])
    (info,) = driver.wal.segments()
    with info.path.open("r+b") as file:
        file.seek(4096 + 548 + 100)
        file.write(b"damage")
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    assert seen(reader) == expected([appends[0], appends[2]])
    assert len(reader.damage) == 1
    assert read(reader, appends[1].location, 500) is None
    assert read(reader, appends[2].location, 500) == appends[2].batch
    ((start, end),) = reader.holes(info.sequence)
    assert start < position_of(appends[1].location) < end
    driver.close()


def sealed_ones(files: Files, directory: Path = WAL) -> tuple[Driver, list[Append]]:
    """A log of several sealed segments, and what is in it."""
    driver = Driver(files, directory)
    appends = [driver.append(size=1000) for _ in range(40)]
    driver.finish(appends)
    driver.until(lambda: sum(info.sealed for info in driver.wal.segments()) > 1)
    return driver, appends


def test_one_that_was_followed_to_its_end_is_as_one_that_is_read_by_its_footer(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    reader, appends = LocalSegmentStore(files, WAL), []
    for _ in range(40):
        appends.append(driver.append(size=1000))
        driver.finish(appends[-1:])
        reader.live()
    infos = driver.wal.segments()
    assert [reader._known[info.sequence].is_in_footer for info in infos] == [
        info.sealed for info in infos
    ]
    assert seen(reader) == expected(appends)
    assert reader.live() == LocalSegmentStore(files, WAL).live()
    assert reader.damage == []
    driver.close()


def test_one_whose_footer_breaks_after_it_was_read_is_read_by_its_entries(
    tmp_path: Path,
) -> None:
    driver, appends = sealed_ones(PosixFiles(), tmp_path)
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    first = reader.live()[0]
    with first.path.open("r+b") as file:
        file.seek(first.bytes + 3)
        file.write(b"damage")
    with pytest.raises(StaleSegment):
        reader.columns(first.sequence)
    assert seen(reader) == expected(appends)
    assert reader.damage == [f"segment {first.sequence}: the footer fails its checksum"]
    driver.close()


def test_columns_of_one_that_was_released_since_the_look_are_stale(
    files: ForgetfulFiles,
) -> None:
    driver, _ = sealed_ones(files)
    reader = LocalSegmentStore(files, WAL)
    gone = reader.live()[0].sequence
    driver.wal.release(gone)
    driver.wal.checkpoint(b"")
    driver.until(lambda: gone not in driver.numbers())
    driver.finish([driver.append(size=1000) for _ in range(40)])
    with pytest.raises(StaleSegment):
        reader.columns(gone)
    driver.close()


def test_an_empty_directory_has_no_segments(files: ForgetfulFiles) -> None:
    assert LocalSegmentStore(files, WAL).live() == []


def test_another_process_opens_a_segment_by_address_and_sequence(
    tmp_path: Path,
) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    one = driver.append(size=500)
    driver.finish([one])
    store = open_store(LocalSegmentStore(PosixFiles(), tmp_path).address)
    assert read(store, one.location, 500) == one.batch
    assert read(store, one.location, 500) == one.batch
    sequence = sequence_of(one.location)
    assert sequence in store.sequences()
    with pytest.raises(StaleSegment), store.opened(sequence + 1):
        pass
    driver.close()


def test_a_segment_whose_file_is_another_one_now_is_found(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    one = driver.append(size=500)
    driver.finish([one])
    (info,) = driver.wal.segments()
    driver.close()
    store = LocalSegmentStore(PosixFiles(), tmp_path)
    assert read(store, one.location, 500) == one.batch
    info.path.rename(tmp_path / "segment-0099.log")
    assert read(store, one.location, 500) == one.batch
    (tmp_path / "segment-0099.log").unlink()
    with pytest.raises(StaleSegment):
        read(store, one.location, 500)


def test_an_open_segment_whose_file_is_used_again_is_stale(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    one = driver.append(size=500)
    driver.finish([one])
    (info,) = driver.wal.segments()
    store = LocalSegmentStore(files, WAL)
    with store.opened(info.sequence) as segment:
        segment.check_current()
        identity = Identity(info.sequence + 1, SEGMENT_BYTES, 0)
        files.pwritev(files.open(info.path), [pack_identity(identity)], 0)
        with pytest.raises(StaleSegment):
            segment.check_current()
    driver.close()


def test_a_damaged_segment_that_was_never_sealed_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    """A start seals nothing in which it found damage, and the log goes on behind it."""
    driver = Driver(PosixFiles(), tmp_path)
    appends = []
    for _ in range(3):  # each durable before the next is written
        appends.append(driver.append(size=500))
        driver.finish(appends[-1:])
    (info,) = driver.wal.segments()
    driver.close()
    with info.path.open("r+b") as file:
        file.seek(position_of(appends[1].location) + 100)
        file.write(b"damage")
    again = Driver(PosixFiles(), tmp_path)
    again.next_offset[1, 0] = 3
    later = again.append(size=500)
    again.finish([later])
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    for _ in range(2):
        assert seen(reader) == expected([appends[0], appends[2], later])
        assert [one.sealed for one in reader.live()] == [False, False]
        assert len(reader.damage) == 1
    again.close()


def test_without_the_checkpoint_nobody_knows_which_segments_count(
    files: ForgetfulFiles,
) -> None:
    assert LocalSegmentStore(files, WAL).live() == []
    driver = Driver(files)
    driver.finish([driver.append()])
    driver.close()
    left = files.after_kill()
    assert LocalSegmentStore(left, WAL).live()
    left.unlink(WAL / "checkpoint")
    with pytest.raises(ManifestDamaged, match="missing"):
        LocalSegmentStore(left, WAL).live()
    Driver(left).close()
    assert LocalSegmentStore(left.after_kill(), WAL).live()


def test_damage_in_the_last_group_hides_nothing_behind_it(
    files: ForgetfulFiles,
) -> None:
    """The position is another segment's soon; the manifest knows the end. What was
    refused behind it is no damaged place."""
    left, appends = damaged_last_group(files)
    kept = [appends[0], *appends[2:]]
    before = LocalSegmentStore(left, WAL)
    assert seen(before) == expected(kept)
    again = Driver(left)
    assert seen(before) == expected(kept)
    again.next_offset[1, 0] = 9
    later = again.append(size=500)
    again.finish([later])
    places = [one.location - ENTRY_HEADER_BYTES for one in appends[1:3]]
    for reader in (before, LocalSegmentStore(left, WAL)):
        assert seen(reader) == expected([*kept, later])
        number = sequence_of(appends[0].location)
        assert reader.holes(number) == [tuple(map(position_of, places))]
        assert len(reader.damage) == 1
    again.close()


def test_what_is_behind_damage_in_the_last_group_is_not_known_to_be_nothing(
    files: ForgetfulFiles,
) -> None:
    """No entry proves that the group was durable, the position is another's, and the
    manifest is of a version that noted no ends."""
    left, appends = damaged_last_group(files)
    again = Driver(left)
    again.next_offset[1, 0] = 4
    later = again.append(size=500)
    again.finish([later])
    objects = LocalObjects(left, WAL)
    manifest = read_manifest(objects)
    assert manifest is not None
    write_manifest(objects, replace(manifest, damaged={}))
    reader = LocalSegmentStore(left, WAL)
    assert seen(reader) == expected([appends[0], later])
    start = position_of(appends[1].location) - ENTRY_HEADER_BYTES
    number = sequence_of(appends[0].location)
    assert reader.holes(number) == [(start, SEGMENT_BYTES)]
    assert reader.holes(sequence_of(later.location)) == []
    assert [f"behind byte {start} is not known" in one for one in reader.damage] == [
        True
    ]
    again.close()


def test_without_a_position_one_that_is_not_sealed_and_has_a_successor_is_damaged(
    files: ForgetfulFiles,
) -> None:
    """It is passed over by nobody: what it holds is read, and its end is not known."""
    driver = Driver(files)
    appends = [driver.append(size=1000) for _ in range(40)]
    driver.finish(appends)
    driver.close()
    left = files.after_kill()
    first = LocalSegmentStore(left, WAL).live()[0]
    left.pwritev(left.open(first.path), [bytes(512)], SEAL_AT)
    left.pwritev(left.open(WAL / "horizon"), [b"damage"], 0)
    reader = LocalSegmentStore(left, WAL)
    reader.live()
    shown = reader.columns(first.sequence)[1, 0].base.tolist()
    assert shown == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert reader.holes(first.sequence) == [(first.bytes, SEGMENT_BYTES)]
    assert len(reader.damage) == 1


def test_a_lost_segment_is_missing_and_one_that_a_look_came_too_early_for_is_not(
    files: ForgetfulFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(files)
    appends = [driver.append(size=1000) for _ in range(40)]
    driver.finish(appends)
    driver.close()
    left = files.after_kill()
    numbers = sorted({sequence_of(one.location) for one in appends})
    look = LocalSegmentStore._look_at_all
    reader = LocalSegmentStore(left, WAL)

    def too_early(store: LocalSegmentStore, *read: object) -> object:
        found = look(store, *read)  # type: ignore[arg-type]
        del found[numbers[1]]
        return found

    with monkeypatch.context() as patched:
        patched.setattr(LocalSegmentStore, "_look_at_all", too_early)
        assert [info.sequence for info in reader.live()] == numbers[:1] + numbers[2:]
    assert (reader.missing, reader.damage) == (set(), [])
    (path,) = {info.path for info in reader.live() if info.sequence == numbers[1]}
    left.unlink(path)
    reader.live()
    assert reader.missing == {numbers[1]}
    assert [f"segment {numbers[1]} is lost" in one for one in reader.damage] == [True]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"\xff" * 512, "unreadable"),
        (bytes(4096), "unreadable"),
        (pack_identity(Identity(2, SEGMENT_BYTES, 1)), "segment 2's"),
    ],
    ids=["damaged", "zeros", "an old one"],
)
@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_segment_whose_first_sector_is_damaged_is_read_as_the_broker_reads_it(
    tmp_path: Path, has_restarted: bool, first: bytes, why: str
) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    appends = [driver.append(size=1000) for _ in range(40)]
    driver.finish(appends)
    driver.close()
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    numbers = [info.sequence for info in reader.live()]
    (path,) = [info.path for info in reader.live() if info.sequence == numbers[1]]
    with path.open("r+b") as file:
        file.write(first)
    text = f"segment {numbers[1]}: its first sector is {why}"
    if has_restarted:
        again = Driver(PosixFiles(), tmp_path)
        assert again.recovery.damage[0] == text
        again.close()
    for store in (reader, LocalSegmentStore(PosixFiles(), tmp_path)):
        for _ in range(2):
            assert seen(store) == expected(appends)
        assert store.missing == set()
        assert store.damage[0] == text
        assert numbers[1] in store.sequences()
    one = next(one for one in appends if sequence_of(one.location) == numbers[1])
    worker = open_store(str(tmp_path))  # it has never looked at all of them
    assert read(worker, one.location, 1000) == one.batch
    with path.open("r+b") as file:  # and when the file is used again
        file.write(pack_identity(Identity(numbers[-1] + 4, SEGMENT_BYTES, 0)))
    with pytest.raises(StaleSegment):
        read(worker, one.location, 1000)


@pytest.mark.parametrize("left", [512, 4096, 5000])
def test_what_a_file_lost_that_was_cut_short_is_a_place_in_it(
    tmp_path: Path, left: int
) -> None:
    driver = Driver(PosixFiles(), tmp_path)
    appends = [driver.append(size=1000) for _ in range(40)]
    driver.finish(appends)
    driver.close()
    first = sequence_of(appends[0].location)
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    (path,) = [info.path for info in reader.live() if info.sequence == first]
    os.truncate(path, left)
    reader = LocalSegmentStore(PosixFiles(), tmp_path)
    reader.live()
    of_it = [one for one in appends if sequence_of(one.location) == first]
    assert all(start < end for start, end in reader.holes(first))
    assert reader.holes(first)[-1][1] >= position_of(of_it[-1].location) + 1000
