"""Space: refused below the mark, taken again above it, and a reserve in between."""

import errno
from pathlib import Path

import pytest

from broker.protocol.errors import ErrorCode
from broker.status.schema import DiskState
from broker.storage.files import PosixFiles
from broker.storage.space import NAME, Space
from tests.broker.storage.driver import WAL, Driver
from tests.support.files import ForgetfulFiles

LOW = 1000


@pytest.fixture
def files() -> ForgetfulFiles:
    files = ForgetfulFiles()
    files.free_bytes = files.disk_bytes = 100 * LOW
    return files


def a_space(files: ForgetfulFiles) -> Space:
    space = Space(files, WAL, LOW)
    space.look()
    return space


def test_writes_are_refused_below_the_mark_and_taken_well_above_it(
    files: ForgetfulFiles,
) -> None:
    space = a_space(files)
    for free, refused in ((LOW, False), (LOW - 1, True), (LOW, True), (1125, False)):
        files.free_bytes = free
        space.look()
        assert (space.refusal is not None) == refused, free
    files.free_bytes = 0
    space.look()
    assert space.refusal is not None
    assert space.refusal.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "the disk of the log has 0.0 MiB left" in str(space.refusal)


def test_what_was_seen_of_the_disk_is_said(files: ForgetfulFiles) -> None:
    assert Space(files, WAL, LOW).state() == DiskState()
    space = a_space(files)
    assert space.state() == DiskState(100 * LOW, 100 * LOW, LOW)
    files.free_bytes = 7
    assert space.state().free_bytes == 100 * LOW
    space.look()
    assert space.state() == DiskState(7, 100 * LOW, LOW)


def test_the_mark_is_never_more_than_a_twentieth_of_the_disk(
    files: ForgetfulFiles,
) -> None:
    files.disk_bytes = 2000
    files.free_bytes = 100
    assert a_space(files).refusal is None
    files.free_bytes = 99
    assert a_space(files).refusal is not None


def test_what_would_pass_the_mark_has_no_room(files: ForgetfulFiles) -> None:
    files.free_bytes = 2 * LOW
    space = a_space(files)
    assert space.has_room(LOW)
    assert not space.has_room(LOW + 1)


def test_a_reserve_is_kept_given_up_and_made_again(files: ForgetfulFiles) -> None:
    space = a_space(files)
    assert len(files.names[WAL / NAME].data) == LOW // 4
    for free, kept in ((LOW // 4, True), (LOW // 4 - 1, False), (2 * LOW - 1, False)):
        files.free_bytes = free
        space.look()
        assert (WAL / NAME in files.names) == kept, free
    files.free_bytes = 2 * LOW
    Space(files, WAL, LOW).look()
    assert WAL / NAME in files.names
    files.free_bytes = 0
    Space(files, WAL, LOW).look()  # one that a start finds is known
    assert WAL / NAME not in files.names


def test_a_reserve_is_never_more_than_four_mebibytes() -> None:
    files = ForgetfulFiles()
    files.free_bytes = files.disk_bytes = 1 << 40
    Space(files, WAL).look()
    assert len(files.names[WAL / NAME].data) == 4 << 20


def test_a_reserve_that_cannot_be_made_leaves_nothing(files: ForgetfulFiles) -> None:
    files.fail("allocate", OSError(errno.ENOSPC, "full"))
    space = a_space(files)
    assert WAL / NAME not in files.names
    space.look()
    assert WAL / NAME in files.names


def test_the_real_file_system_tells_what_is_free(tmp_path: Path) -> None:
    free, total = PosixFiles().space(tmp_path)
    assert 0 < free <= total


def test_a_log_without_space_refuses_tells_and_goes_on(files: ForgetfulFiles) -> None:
    files.disk_bytes = 20 * LOW
    files.free_bytes = 1 << 30
    driver = Driver(files, low_space_bytes=LOW)
    driver.finish([driver.append()])
    assert (driver.wal.refusal, driver.wal.trouble) == (None, None)
    files.free_bytes = LOW - 1
    driver.wal.look_at_space()
    driver.until(lambda: driver.wal.refusal is not None)
    assert "are kept for what makes room" in (driver.wal.trouble or "")
    driver.until(lambda: not driver.wal._pool.could_warm())
    one = driver.append()  # what was on its way is written: it has its place
    driver.finish([one])
    assert one.error is None
    files.free_bytes = 1 << 30
    driver.wal.look_at_space()
    driver.until(lambda: driver.wal.refusal is None)
    assert driver.wal.trouble is None
    driver.close()


def test_without_space_slots_are_removed_and_none_is_made(
    files: ForgetfulFiles,
) -> None:
    files.disk_bytes = 20 * LOW
    files.free_bytes = 1 << 30
    driver = Driver(files, low_space_bytes=LOW, spare_segments=3)
    driver.finish([driver.append()])
    driver.wal.roll()
    driver.until(lambda: not driver.wal._pool.wants())
    for _ in range(3):
        driver.wal._pool.prepare()
    files.free_bytes = LOW - 1
    driver.wal.look_at_space()
    driver.until(lambda: len(driver.wal._pool._free) == 1)
    made = files.count("allocate")
    driver.finish([driver.append()])
    driver.wal.roll()
    one = driver.append()
    driver.finish([one])
    assert one.error is not None
    assert files.count("allocate") == made
    driver.close()


def test_a_start_on_a_full_disk_gives_the_reserve_up_first(
    files: ForgetfulFiles,
) -> None:
    files.disk_bytes = 20 * LOW
    Driver(files, low_space_bytes=LOW).close()
    files = files.after_kill()
    files.free_bytes, files.disk_bytes = 0, 20 * LOW
    assert WAL / NAME in files.names
    driver = Driver(files, low_space_bytes=LOW)
    assert files.calls.index("unlink") < files.calls.index("create")
    assert WAL / NAME not in files.names
    driver.close()


def test_what_makes_room_may_take_some_of_the_low_mark() -> None:
    files = ForgetfulFiles()
    files.mkdir(WAL)
    files.free_bytes, files.disk_bytes = 500, 100_000
    space = Space(files, WAL, 400)
    space.look()
    assert not space.has_room(101)
    assert space.may_take(400)
    assert not space.may_take(401)
