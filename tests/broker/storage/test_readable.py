"""What a disk cannot read is damaged, and ends nobody's process."""

import errno
from collections.abc import Sequence

import numpy as np
import pytest

from broker.ids import TopicPartition
from broker.records.batch import seal
from broker.records.kinds import DAMAGED, PLAIN
from broker.records.layout import HEADER_BYTES
from broker.storage import readable
from broker.storage.columns import ROW_BYTES
from broker.storage.directory import DataDirectory
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, position_of
from broker.storage.files import Buffer, Files
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.store import LocalSegmentStore
from broker.storage.warehouse import DirectoryRefused
from tests.broker.storage.driver import WAL, Driver, an_append, batch, held
from tests.support.files import ForgetfulFiles, ForgetfulMap, nothing

PAGE = readable.PAGE_BYTES


class WornFiles(ForgetfulFiles):
    """One page of one file cannot be read; who maps it would be killed."""

    bad: tuple[object, int] | None = None

    def is_bad(self, file: int, start: int, end: int) -> bool:
        if self.bad is None or self._open[file] is not self.bad[0]:
            return False
        return start < self.bad[1] + PAGE and self.bad[1] < end

    def pread(self, file: int, length: int, position: int) -> bytes:
        if self.is_bad(file, position, position + length):
            raise OSError(errno.EIO, "Input/output error")
        return super().pread(file, length, position)

    def pwritev(self, file: int, parts: Sequence[Buffer], position: int) -> None:
        """The kernel reads a page first that is written in part; a new page is good."""
        end = position + sum(map(len, parts))
        if self.is_bad(file, position, end):
            assert self.bad is not None
            page = self.bad[1]
            if not position <= page < page + PAGE <= end:
                raise OSError(errno.EIO, "Input/output error")
            self.bad = None
        super().pwritev(file, parts, position)

    def map(self, file: int, size: int) -> ForgetfulMap:
        # Before the first entry no mapped file is looked into.
        assert not self.is_bad(file, HEADER_BLOCK_BYTES, size), "a bus error"
        return super().map(file, size)


def worn(files: ForgetfulFiles) -> WornFiles:
    made, left = WornFiles(), files.after_kill()
    made.names, made.durable_names = left.names, left.durable_names
    made.directories = left.directories
    return made


@pytest.mark.parametrize(("position", "length"), [(0, 4 * PAGE), (100, 3 * PAGE)])
def test_zeros_stand_for_a_page_that_cannot_be_read(position: int, length: int) -> None:
    files = WornFiles()
    file = files.create(WAL / "x")
    data = bytes(range(1, 251)) * 50
    files.pwritev(file, [data], 0)
    files.bad = files.names[WAL / "x"], PAGE
    expected = data[:PAGE] + bytes(PAGE) + data[2 * PAGE :]
    there = expected[position : position + length]
    assert readable.read(files, file, length, position) == there
    with readable.view(files, file, len(data), 100) as seen:
        assert seen.bytes[100:] == expected[100:]
        assert seen.unread == ((PAGE, 2 * PAGE),)
    files.bad = None
    files.fail("pread", OSError(errno.EACCES, "Permission denied"))
    with pytest.raises(PermissionError):
        readable.read(files, file, length, position)


def test_pages_beside_each_other_that_cannot_be_read_are_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = WornFiles()
    file = files.create(WAL / "x")
    files.pwritev(file, [bytes(8 * PAGE)], 0)
    bad = (1, 2, 3, 5)

    def pread(file: int, length: int, position: int) -> bytes:
        if any(position < (n + 1) * PAGE and n * PAGE < position + length for n in bad):
            raise OSError(errno.EIO, "Input/output error")
        return bytes(length)

    monkeypatch.setattr(files, "pread", pread)
    with readable.view(files, file, 8 * PAGE) as seen:
        assert seen.unread == ((PAGE, 4 * PAGE), (5 * PAGE, 6 * PAGE))


@pytest.mark.parametrize("nth", range(1, 10))
def test_a_page_that_can_be_read_the_second_time_is_whole(nth: int) -> None:
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=1000) for _ in range(8)]
    driver.finish(appends)
    files = driver.files.after_kill()
    driver.close()
    files.fail("pread", OSError(errno.EIO, "Input/output error"), nth)
    again = Driver(files)
    assert held(again.recovery, again.wal)[1, 0] == [one.batch for one in appends]
    assert not again.recovery.damage
    again.close()


@pytest.mark.parametrize("name", ["checkpoint", "horizon"])
def test_a_start_goes_on_without_a_small_file_that_cannot_be_read(name: str) -> None:
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=1000) for _ in range(8)]
    driver.finish(appends)
    files = worn(driver.files)
    driver.close()
    files.bad = files.names[WAL / name], 0
    again = Driver(files)
    assert held(again.recovery, again.wal)[1, 0] == [one.batch for one in appends]
    assert bool(again.recovery.damage) == (name == "checkpoint")
    more = an_append(batch(8), done=again.finished.append)
    again.wal.append(more)
    again.finish([more])
    assert more.error is None
    again.close()


def test_a_lock_that_cannot_be_read_stops_no_start_and_a_version_says_why() -> None:
    made = ForgetfulFiles()
    DataDirectory.claim(made, WAL.parent, "process 7").close()
    files = worn(made)
    files.bad = files.names[WAL.parent / "lock"], 0
    DataDirectory.claim(files, WAL.parent, "process 8").close()
    with pytest.raises(DirectoryRefused, match="in use by another process"):
        DataDirectory.claim(files, WAL.parent, "process 9")
    files = worn(made)
    files.bad = files.names[WAL.parent / "VERSION"], 0
    with pytest.raises(DirectoryRefused, match="VERSION is damaged"):
        DataDirectory.claim(files, WAL.parent, "process 8")


@pytest.mark.parametrize("page", [0, 1, 2])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_page_that_cannot_be_read_is_damage_to_a_start_and_to_others(
    page: int, is_sealed: bool
) -> None:
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=1000) for _ in range(8)]
    driver.finish(appends)
    if is_sealed:
        driver.wal.roll()
        driver.until(lambda: len(driver.sealed) == 1)
    (info,) = driver.wal.segments()
    files = worn(driver.files)
    driver.close()
    files.bad = files.names[info.path], page * PAGE
    places = [position_of(one.location) for one in appends]
    kept = [
        bytes(one.batch)
        for one, place in zip(appends, places, strict=True)
        if place + 1000 <= page * PAGE
        or (page + 1) * PAGE <= place - ENTRY_HEADER_BYTES
    ]
    again = Driver(files)
    assert again.recovery.damage
    assert bool(again.recovery.lost) == (page > 0)
    assert held(again.recovery, again.wal)[1, 0] == kept
    again.close()
    store = LocalSegmentStore(files, WAL)
    store.live()
    columns = store.columns(info.sequence)[1, 0]
    with store.opened(info.sequence) as segment:
        seen = [
            segment.read_range(position_of(int(place)), int(length))
            for place, length in zip(columns.location, columns.length, strict=True)
        ]
    assert [one for one in seen if one in kept] == kept


@pytest.mark.parametrize("is_sealed", [True, False])
def test_zeros_that_happen_to_be_right_are_not_what_was_read(is_sealed: bool) -> None:
    """The start could write no footer into their page, nor give them to anybody."""
    driver = Driver(ForgetfulFiles())
    appends = [an_append(zeros(n, 3000), done=driver.finished.append) for n in range(2)]
    for one in appends:
        driver.wal.append(one)
    driver.finish(appends)
    if is_sealed:
        driver.wal.roll()
        driver.until(lambda: len(driver.sealed) == 1)
    (info,) = driver.wal.segments()
    files = worn(driver.files)
    driver.close()
    files.bad = files.names[info.path], 2 * PAGE
    again = Driver(files)
    assert held(again.recovery, again.wal)[1, 0] == [appends[0].batch]
    assert "cannot be read" in again.recovery.damage[0]
    again.close()


def zeros(base_offset: int, size: int) -> bytes:
    """A batch that ends in zeros."""
    data = bytearray(batch(base_offset, size))
    data[HEADER_BYTES:] = bytes(size - HEADER_BYTES)
    seal(data)
    return bytes(data)


@pytest.mark.parametrize("page", [0, 1, 2, 3])
def test_after_a_power_cut_a_page_that_cannot_be_read_is_no_torn_tail(
    page: int,
) -> None:
    """The cut took the position, so nothing says that the only group was durable; but
    what a cut tears can be read."""
    appends, files = a_group(page, is_cut=True)
    again = Driver(files)
    assert again.recovery.damage
    assert again.recovery.torn is None
    assert bool(again.recovery.lost) == (page > 0)
    assert held(again.recovery, again.wal) == apart_from(page, appends)
    again.close()


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(("page", "partition"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_what_a_start_could_not_read_does_not_come_back_at_a_later_one(
    page: int, partition: int, is_cut: bool
) -> None:
    """Its offsets were given again meanwhile."""
    appends, files = a_group(page, is_cut=is_cut)
    driver = Driver(files)
    lost, there = driver.recovery.lost, apart_from(page, appends)
    kept = there.get((1, partition), [])
    assert (len(lost), held(driver.recovery, driver.wal)) == (1, there)
    again = batch(len(kept), 900, seed=9)
    one = an_append(again, partition, done=driver.finished.append)
    driver.wal.append(one)
    driver.finish([one])
    left = files.after_kill()
    driver.close()
    for life in (left, left.after_kill()):
        reader = LocalSegmentStore(life, WAL)
        old = reader.live()[0].sequence
        assert reader.columns(old).keys() == there.keys()
        assert reader.holes(old) == [tuple(map(position_of, lost[0][:2]))]
        third = Driver(life)
        assert held(third.recovery, third.wal) == {
            **there,
            (1, partition): [*kept, again],
        }
        assert third.recovery.lost == lost
        third.close()


def test_zeros_for_what_cannot_be_read_are_not_taken_for_plain_batches() -> None:
    """A record that was aborted would count."""
    _, files = a_group(2, is_cut=False)
    reader, page, files.bad = LocalSegmentStore(files, WAL), files.bad, None
    (info,) = reader.live()
    columns = reader.columns(info.sequence)
    positions = columns[1, 0].location & 0xFFFFFFFF
    lengths = columns[1, 0].length
    with reader.opened(info.sequence) as segment:
        assert segment.kinds(positions, lengths) is None, "all are plain"
        files.bad = page
        assert page is not None
        unread = (positions >= page[1] - PAGE) & (positions < page[1] + PAGE)
        assert segment.kinds(positions[~unread], lengths[~unread]) is None
        others = columns[1, 1].location & 0xFFFFFFFF
        positions = np.concatenate([positions, others])
        lengths = np.concatenate([lengths, columns[1, 1].length])
        kinds = segment.kinds(positions, lengths)
        assert kinds is not None
        is_in_page = (positions + 78 > page[1]) & (positions < page[1] + PAGE)
        assert kinds.kind.tolist() == np.where(is_in_page, DAMAGED, PLAIN).tolist()
        assert 0 < is_in_page.sum() < len(positions)


def test_who_read_more_than_a_start_could_forgets_it() -> None:
    """The compactor follows the log: what the start found of it counts from then on."""
    appends, files = a_group(2, is_cut=False)
    reader, page, files.bad = LocalSegmentStore(files, WAL), files.bad, None
    assert _seen(reader) == {(1, 0): [0, 1, 2, 3], (1, 1): [0, 1, 2, 3]}
    files.bad = page
    driver = Driver(files)
    assert held(driver.recovery, driver.wal) == apart_from(2, appends)
    files.bad = None
    one = an_append(batch(3, 900, seed=9), done=driver.finished.append)
    driver.wal.append(one)
    driver.finish([one])
    for _ in range(2):
        assert _seen(reader) == {(1, 0): [0, 1, 2, 3]}
    assert _seen(LocalSegmentStore(files, WAL)) == {(1, 0): [0, 1, 2, 3]}
    driver.close()


def _seen(reader: LocalSegmentStore) -> dict[TopicPartition, list[int]]:
    """The offsets of all batches, in the order of segments."""
    found: dict[TopicPartition, list[int]] = {}
    for info in reader.live():
        for key, columns in reader.columns(info.sequence).items():
            found.setdefault(key, []).extend(columns.base.tolist())
    return found


def a_group(page: int, *, is_cut: bool) -> tuple[list[Append], WornFiles]:
    """Four batches of each of two partitions, written together; what a kill or a power
    cut left, in which a page of their file cannot be read."""
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=1000, partition=n // 4) for n in range(8)]
    driver.finish(appends)
    (info,) = driver.wal.segments()
    left = driver.files.after_power_cut(nothing) if is_cut else driver.files
    files = worn(left)
    driver.close()
    files.bad = files.names[info.path], page * PAGE
    return appends, files


def apart_from(
    page: int, appends: Sequence[Append]
) -> dict[TopicPartition, list[bytes]]:
    """The batches of whose entries nothing lies in the page."""
    kept: dict[TopicPartition, list[bytes]] = {}
    for one in appends:
        place = position_of(one.location)
        start, end = place - ENTRY_HEADER_BYTES, place + len(one.batch)
        if end <= page * PAGE or (page + 1) * PAGE <= start:
            kept.setdefault((1, one.partition), []).append(bytes(one.batch))
    return kept


def test_a_page_that_cannot_be_read_behind_the_end_holds_up_no_start() -> None:
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=100) for _ in range(25)]
    driver.finish(appends)
    (info,) = driver.wal.segments()
    assert info.bytes < 2 * PAGE < info.bytes + len(appends) * ROW_BYTES
    files = worn(driver.files)
    driver.close()
    files.bad = files.names[info.path], 2 * PAGE
    again = Driver(files)
    assert held(again.recovery, again.wal)[1, 0] == [one.batch for one in appends]
    assert not again.recovery.damage
    again.close()


def test_a_free_file_whose_first_page_cannot_be_read_is_used_all_the_same() -> None:
    driver = Driver(ForgetfulFiles())
    driver.settle()
    driver.close()
    files = worn(driver.files)
    (path,) = (path for path in files.names if path.suffix == ".log")
    files.bad = files.names[path], 0
    again = Driver(files)
    one = again.append()
    again.finish([one])
    assert one.error is None
    again.close()


def test_a_page_before_the_checkpoint_that_cannot_be_read_stops_no_start() -> None:
    """Of the last segment, which a start writes again without having verified it."""
    driver = Driver(ForgetfulFiles())
    appends = [driver.append(size=1000) for _ in range(8)]
    driver.finish(appends)
    (info,) = driver.wal.segments()
    driver.close()
    again = Driver(driver.files.after_kill())
    again.wal.checkpoint(b"all")
    again.until(lambda: _payload(again.files) == b"all")
    last = position_of(appends[-1].location)
    for page, kept, lost in ((PAGE, 4, 1), (last - last % PAGE, 1, 4)):
        files = worn(again.files)
        files.bad = files.names[info.path], page
        third = Driver(files)
        more = an_append(batch(8), done=third.finished.append)
        third.wal.append(more)
        third.finish([more])
        assert more.error is None
        assert third.wal.read([_place_of(appends[kept])]) == [appends[kept].batch]
        with pytest.raises(OSError, match="Input/output error"):
            third.wal.read([_place_of(appends[lost])])
        third.close()
    again.close()


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_sector_that_takes_no_write_and_cannot_be_read_stops_no_start(
    call: str,
) -> None:
    driver = Driver(ForgetfulFiles())
    driver.settle()
    kept = driver.append(size=1000)
    driver.finish([kept])
    driver.files.fail(call, OSError(errno.EIO, "Input/output error"))
    refused = driver.append(size=1000)
    driver.finish([refused])
    assert refused.error is not None
    (info,) = driver.wal.segments()
    driver.close()
    files = worn(driver.files)
    files.bad = files.names[info.path], PAGE
    again = Driver(files)
    assert again.recovery.damage
    assert not again.recovery.columns
    more = an_append(batch(1), done=again.finished.append)
    again.wal.append(more)
    again.finish([more])
    assert more.error is None
    again.close()
    # What was refused stays so, also when the page can be read again; and so does what
    # was lost with it, whose offset may be another batch's.
    files.bad = None
    third = Driver(files)
    assert held(third.recovery, third.wal)[1, 0] == [more.batch]
    assert third.recovery.lost == again.recovery.lost
    third.close()


def _payload(files: Files) -> bytes | None:
    manifest = read_manifest(LocalObjects(files, WAL))
    return manifest.payload if manifest else None


def _place_of(one: Append) -> tuple[int, int]:
    return one.location, len(one.batch)
