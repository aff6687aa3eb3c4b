"""The relaxed mode: acknowledged when written, durable when synced now and then."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.configuration.loading import load
from broker.node import relaxed
from broker.storage.committed_position import (
    CommittedPosition,
    read_committed_position,
)
from broker.storage.entry import location_of
from broker.storage.files import PosixFiles
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.segment import SegmentInfo
from broker.storage.store import LocalSegmentStore
from tests.broker.storage.driver import WAL, Driver, held
from tests.support.files import ForgetfulFiles, Write, nothing


def test_no_batch_waits_for_a_sync() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    driver.settle()
    before = files.count("fdatasync")
    appends = [driver.append() for _ in range(20)]
    driver.finish(appends)
    assert [one.error for one in appends] == [None] * 20
    assert files.count("fdatasync") == before
    committed_position = read_committed_position(files, WAL)
    assert committed_position is not None
    assert committed_position.position == driver.wal.segments()[-1].bytes
    driver.close()


def test_a_power_cut_takes_what_was_not_synced_and_nothing_else() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    kept = [driver.append() for _ in range(5)]
    driver.finish(kept)
    driver.wal.sync()
    lost = [driver.append() for _ in range(5)]
    driver.finish(lost)
    again = Driver(files.after_power_cut(nothing))
    assert not again.recovery.damage
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in kept]}
    again.close()
    driver.close()


def test_what_others_are_shown_no_power_cut_takes() -> None:
    """Else a table would hold what the log lost, and give its offsets again."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    shown = [driver.append() for _ in range(5)]
    driver.finish(shown)
    store = LocalSegmentStore(files, WAL)
    assert sum(info.bytes for info in store.live()) == driver.wal.segments()[-1].bytes
    before = files.count("fdatasync")
    store.live()
    assert files.count("fdatasync") == before  # there is nothing new
    driver.finish([driver.append()])
    again = Driver(files.after_power_cut(nothing))
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in shown]}
    again.close()
    driver.close()


class LookedAt(ForgetfulFiles):
    """Somebody looks while the next sync is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], object] | None = None

    def fdatasync(self, file: int) -> None:
        look, self.look = self.look, None
        if look is not None:
            look()
        super().fdatasync(file)


def test_nor_what_they_are_shown_of_a_segment_whose_seal_is_being_synced() -> None:
    """The seal is seen before it is on the disk, and with it all that was written."""
    files = LookedAt()
    driver = Driver(files, sync=False)
    driver.settle()
    kept = [driver.append() for _ in range(5)]
    driver.finish(kept)
    looks: list[tuple[list[SegmentInfo], ForgetfulFiles]] = []

    def look() -> None:
        shown = LocalSegmentStore(files, WAL).live()
        looks.append((shown, files.after_power_cut(nothing)))

    files.look = look
    driver.wal.roll()
    driver.until(lambda: bool(looks))
    [([info], cut)] = looks
    assert (info.sealed, info.ranges[1, 0]) == (True, (0, 5))
    again = Driver(cut)
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in kept]}
    again.close()
    driver.close()


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EROFS])
def test_what_lies_where_nothing_can_be_synced_is_shown(refusal: int) -> None:
    """As `lakelog check` finds it in an image of a disk."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    driver.settle()
    driver.finish([driver.append() for _ in range(5)])
    left = files.after_kill()
    left.fail("fdatasync", OSError(refusal, "no sync there"))
    [info] = LocalSegmentStore(left, WAL).live()
    assert info.ranges[1, 0] == (0, 5)
    left.fail("fdatasync", OSError(errno.EIO, "a failing disk"))
    with pytest.raises(OSError, match="a failing disk"):
        LocalSegmentStore(left, WAL).live()
    driver.close()


def test_a_process_that_dies_loses_nothing() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    appends = [driver.append() for _ in range(5)]
    driver.finish(appends)
    again = Driver(files.after_kill())
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in appends]}
    again.close()
    driver.close()


@pytest.mark.parametrize("step", ["checkpoint", "roll", "close"])
def test_checkpoint_roll_and_close_are_as_durable_as_ever(step: str) -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    appends = [driver.append() for _ in range(5)]
    driver.finish(appends)
    if step == "checkpoint":
        driver.wal.checkpoint(b"the state")
        driver.until(lambda: b"the state" in durable(files, "checkpoint"))
    elif step == "roll":
        driver.wal.roll()
        driver.until(lambda: len(driver.sealed) == 1)
    else:
        driver.close()
    again = Driver(files.after_power_cut(nothing))
    assert not again.recovery.damage
    assert held(again.recovery, again.wal)[1, 0] == [one.batch for one in appends]
    again.close()
    if step != "close":
        driver.close()


def durable(files: ForgetfulFiles, name: str) -> bytes:
    inode = files.durable_names.get(WAL / name)
    return b"" if inode is None else inode.durable


def test_a_sync_that_fails_is_a_failed_log() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    driver.finish([driver.append()])
    driver.until(lambda: files.count("allocate") == 2)
    files.fail("fdatasync", OSError(errno.EIO, "the disk is dying"))
    driver.wal.sync()
    refused = driver.append()
    driver.finish([refused])
    assert refused.error is not None
    assert driver.wal.failed is not None
    driver.close()


def test_the_compiled_writer_leaves_the_sync_out_too(
    tmp_path: Path,
) -> None:
    from broker.storage.appender import SegmentAppender
    from broker.storage.lane import Lane, kernels

    driver = Driver(PosixFiles(), tmp_path, sync=False)
    appender: SegmentAppender = driver.wal._appender
    assert Lane(appender)._state[kernels.SYNC] == 0
    driver.close()
    durable = Driver(PosixFiles(), tmp_path)
    assert Lane(durable.wal._appender)._state[kernels.SYNC] == 1
    durable.close()


def test_the_mode_is_named() -> None:
    assert relaxed(load({}, environment={})) == ""
    settings = load(
        {"wal.sync": "interval", "wal.sync_interval_ms": 70}, environment={}
    )
    assert "wal.sync=interval" in relaxed(settings)
    assert "70 ms" in relaxed(settings)


@pytest.mark.parametrize("sealed", [False, True])
def test_after_a_failed_sync_a_restart_makes_durable_what_it_shows(
    *, sealed: bool
) -> None:
    """What says how far it was written does not say that it was synced."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    appends = [driver.append() for _ in range(5)]
    driver.finish(appends)
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", OSError(errno.EIO, "the disk is dying"))
    if sealed:
        driver.wal.roll()
    else:
        driver.wal.sync()
    driver.until(lambda: driver.wal.failed is not None)
    files = files.after_kill()
    driver.close()
    again = Driver(files)
    shown = held(again.recovery, again.wal)
    assert shown == {(1, 0): [one.batch for one in appends]}
    cut = Driver(files.after_power_cut(nothing))
    again.close()
    assert not cut.recovery.damage
    assert held(cut.recovery, cut.wal) == shown
    cut.close()


def small(write: Write) -> list[Write]:
    """What survives is the committed position, of all that was not synced."""
    return [write] if len(write[1]) < 40 else []


def test_what_was_written_and_is_gone_after_a_power_cut_is_no_damage() -> None:
    """The position may be on the disk before what it speaks of."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    kept = [driver.append() for _ in range(5)]
    driver.finish(kept)
    driver.wal.sync()
    driver.finish([driver.append() for _ in range(5)])
    cut = files.after_power_cut(small)
    noted = read_committed_position(cut, WAL)
    assert noted is not None
    assert not noted.synced
    again = Driver(cut)
    assert (again.recovery.damage, again.recovery.lost) == ([], [])
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in kept]}
    again.close()
    driver.close()


@pytest.mark.parametrize("how", ["cut", "zeros", "gone"])
def test_what_was_written_and_is_gone_is_named_until_a_checkpoint(how: str) -> None:
    """Others may have synced it, and a table may have it: at each start it is a place
    of which nobody says what it held, also when the position is another segment's."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    driver.finish([driver.append()])
    driver.wal.roll()
    driver.wal.checkpoint(b"state")
    driver.until(lambda: _has_checkpoint(files))
    driver.finish([driver.append() for _ in range(3)])
    info = driver.wal.segments()[-1]
    left = files.after_kill()
    driver.close()
    node = left.names[info.path]
    if how == "gone":
        left.unlink(info.path)
    else:
        rest = b"" if how == "cut" else bytes(len(node.data) - HEADER_BLOCK_BYTES)
        node.data[HEADER_BLOCK_BYTES:] = rest
    for start in range(3):
        again = Driver(left, sync=False)
        assert again.recovery.unclaimed_below >= location_of(info.sequence + 1, 0)
        said = f"segment {info.sequence}: written up to byte {info.bytes}"
        assert (said in (again.recovery.torn or "")) == (start == 0)
        again.next_offset[1, 0] = 4 + start
        newer = again.append()
        again.finish([newer])
        assert again.recovery.unclaimed_below < newer.location
        reader = LocalSegmentStore(left, WAL)
        reader.live()
        assert reader.missing == set()
        left = left.after_kill()
        again.close()
    again = Driver(left)
    again.wal.checkpoint(b"more")
    again.close()
    again = Driver(again.files.after_kill())
    assert again.recovery.replayed_from >= again.recovery.unclaimed_below
    again.close()


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_was_only_written_is_found_behind_a_first_sector_that_is_lost(
    *, is_listed: bool
) -> None:
    """No entry says of another that it was durable, but they are there."""
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    appends = [driver.append(size=2500) for _ in range(4)]
    driver.finish(appends)
    (info,) = driver.wal.segments()
    left = files.after_kill()
    driver.close()
    left.pwritev(left.open(info.path), [bytes(512)], 0)
    if not is_listed:
        left.unlink(WAL / "checkpoint")
    for _ in range(2):
        again = Driver(left, sync=False)
        there = held(again.recovery, again.wal)
        assert there == {(1, 0): [one.batch for one in appends]}
        left = left.after_kill()
        again.close()


def _has_checkpoint(files: ForgetfulFiles) -> bool:
    manifest = read_manifest(LocalObjects(files, WAL))
    return manifest is not None and manifest.payload == b"state"


def test_what_was_synced_and_is_gone_is_damage_in_this_mode_too() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    driver.finish([driver.append() for _ in range(5)])
    driver.wal.sync()
    driver.until(lambda: bool(noted_as_synced(files)))
    (info,) = driver.wal.segments()
    cut = files.after_power_cut(small)
    cut.pwritev(cut.open(info.path), [b"damage"], info.bytes - 50)
    again = Driver(cut)
    assert any("were durable and are damaged" in each for each in again.recovery.damage)
    again.close()
    driver.close()


def noted_as_synced(files: ForgetfulFiles) -> CommittedPosition | None:
    noted = read_committed_position(files, WAL)
    return noted if noted is not None and noted.synced else None


def test_a_marker_is_synced_with_all_before_it() -> None:
    files = ForgetfulFiles()
    driver = Driver(files, sync=False)
    kept = [driver.append() for _ in range(5)]
    driver.finish(kept)
    kept.append(driver.append_marker())
    driver.finish(kept)
    driver.finish([driver.append()])
    noted = read_committed_position(files, WAL)
    assert noted is not None
    assert not noted.synced
    again = Driver(files.after_power_cut(nothing))
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch for one in kept]}
    again.close()
    driver.close()
