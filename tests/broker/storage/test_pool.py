"""Spare segment files: ready before they are needed, and gone when too many."""

import errno
import threading

import pytest
from structlog.testing import capture_logs

from broker.storage.pool import PIECE_BYTES, NoSlot, SlotPool
from broker.storage.segment import Slot
from tests.broker.storage.driver import SEGMENT_BYTES, WAL
from tests.support.files import ForgetfulFiles, nothing
from tests.support.patience import IDLE_S


def a_pool(files: ForgetfulFiles, spare: int = 1, free_max: int = 3) -> SlotPool:
    return SlotPool(files, WAL, SEGMENT_BYTES, spare, free_max, lambda: None)


def test_a_reserved_slot_survives_a_power_cut_with_its_zeros() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files)
    pool.prepare()
    slot = pool.take()
    left = files.after_power_cut(nothing)
    assert left.names[slot.path].durable == bytes(SEGMENT_BYTES)


def warmed(pool: SlotPool) -> int:
    """Pieces that are written until there is nothing to warm any more."""
    pieces = 0
    while pool.could_warm():
        pool.warm()
        pieces += 1
        assert pieces < 100
    return pieces


def test_one_slot_is_wanted_at_once_and_the_others_when_there_is_time() -> None:
    pool = a_pool(ForgetfulFiles(), spare=3)
    assert pool.wants()
    pool.prepare()
    assert not pool.wants()
    assert pool.could_warm()
    assert pool.is_short
    warmed(pool)
    assert not pool.is_short
    pool.close()
    assert not pool.wants()
    assert not pool.could_warm()


def test_there_are_as_many_written_ones_as_were_taken_up_to_a_target() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files, spare=3)
    ready = []
    for _ in range(5):
        warmed(pool)
        ready.append(len(files.listdir(WAL)))
        pool.take()
    assert ready == [1, 1 + 2, 2 + 3, 3 + 3, 4 + 3]


def test_a_slot_is_written_in_pieces_that_hold_up_nobody_for_long() -> None:
    files = ForgetfulFiles()
    size = 2 * PIECE_BYTES + 100
    pool = SlotPool(files, WAL, size, 1, 3, lambda: None)
    pool.prepare()
    assert warmed(pool) == 3
    slot = pool.take()
    assert slot.written == slot.size == size


def test_a_written_slot_is_taken_before_one_that_is_only_reserved() -> None:
    pool = a_pool(ForgetfulFiles(), spare=1)
    pool.prepare()
    warmed(pool)
    pool.prepare()
    assert [pool.take().written, pool.take().written] == [SEGMENT_BYTES, 0]


def test_a_slot_that_cannot_be_written_is_removed_and_told_of() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files)
    pool.prepare()
    files.fail("fdatasync", OSError(errno.EIO, "the disk is dying"))
    pool.warm()
    assert files.listdir(WAL) == []
    assert not pool.wants()  # nobody waits: it is tried again when somebody does


def test_who_waits_gets_the_slot_that_is_made() -> None:
    pool = a_pool(ForgetfulFiles(), spare=0)
    taken: list[Slot] = []
    taker = threading.Thread(target=lambda: taken.append(pool.take()))
    taker.start()
    while not pool.wants():
        pass
    pool.prepare()
    taker.join(IDLE_S)
    assert len(taken) == 1


def test_who_waits_is_told_why_there_is_none_and_may_try_again() -> None:
    files = ForgetfulFiles()

    def housekeep() -> None:
        if pool.wants():
            pool.prepare()

    def ask() -> None:
        threading.Thread(target=housekeep).start()

    pool = SlotPool(files, WAL, SEGMENT_BYTES, 0, 0, ask)
    files.fail("allocate", OSError(errno.ENOSPC, "no space"))
    with pytest.raises(NoSlot, match="no space"):
        pool.take()
    assert "no space" in (pool.trouble or "")
    assert files.listdir(WAL) == []
    pool.prepare()  # the recycler looks again, though nobody asks
    assert pool.trouble is None
    assert pool.take().size == SEGMENT_BYTES


def test_a_trouble_is_logged_when_it_begins_and_not_at_each_try() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files)
    with capture_logs() as logs:
        for why in ("full", "full", "broken"):
            files.fail("allocate", OSError(errno.ENOSPC, why))
            pool.prepare()
    assert [one["event"].split("] ")[1] for one in logs] == ["full", "broken"]


def test_slots_beyond_the_bound_or_of_another_size_are_removed() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files, spare=1, free_max=2)
    for _ in range(4):
        pool.prepare()
    assert len(files.listdir(WAL)) == 2
    path = WAL / "segment-0099.log"
    pool.give(Slot(99, path, files.create(path), 10))
    assert path.name not in files.listdir(WAL)


def test_a_spare_is_not_the_writers_last_and_not_its_best() -> None:
    files = ForgetfulFiles()
    room = [True]
    pool = SlotPool(
        files, WAL, SEGMENT_BYTES, 2, 3, lambda: None, may_take=lambda _: room[0]
    )
    assert pool.take_spare(SEGMENT_BYTES + 1) is None
    made = pool.take_spare(SEGMENT_BYTES)
    assert made is not None  # there was none: one more was made
    pool.give(made)
    warmed(pool)
    pool.prepare()
    spare = pool.take_spare(100)
    assert spare is not None
    assert spare.written == 0
    while pool.take_spare(100) is not None and room[0]:
        room[0] = False
    assert not pool.is_short  # what is left is the writer's
    pool.close()
    assert pool.take_spare(100) is None


def test_a_slot_that_cannot_be_removed_costs_space_and_nothing_else() -> None:
    """It is the recycler's thread that gives slots back: it must live on."""
    files = ForgetfulFiles()
    pool = a_pool(files, free_max=1)
    slots = []
    for _ in range(2):
        pool.prepare()
        slots.append(pool.take())
    pool.give(slots[0])
    files.fail("unlink", OSError(errno.EIO, "input/output error"))
    pool.give(slots[1])
    assert len(files.listdir(WAL)) == 2
    assert pool.take() is slots[0]


def test_what_is_renewed_is_removed_and_comes_back_to_nobody() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files, spare=2)
    pool.prepare()
    pool.prepare()
    taken, free = pool.take(), max(files.listdir(WAL))
    pool.renew()
    assert not pool.is_swept
    assert pool.is_old(taken)
    pool.sweep()
    assert pool.is_swept
    assert files.listdir(WAL) == [taken.path.name]
    pool.give(taken)
    assert not pool.is_swept
    pool.sweep()
    assert files.listdir(WAL) == []
    left = files.after_power_cut(nothing)
    assert not left.listdir(WAL)
    pool.prepare()
    new = pool.take()
    assert new.path.name > free
    assert not pool.is_old(new)
    pool.give(new)
    assert pool.take() is new


def test_a_sweep_that_fails_is_gone_on_with_and_closes_no_file_twice() -> None:
    """A descriptor's number may be another file's by then."""
    files = ForgetfulFiles()
    pool = a_pool(files)
    pool.prepare()
    pool.renew()
    files.fail("fsync_dir", OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output"):
        pool.sweep()
    assert not pool.is_swept
    closed: list[int] = []
    files.close = closed.append  # type: ignore[assignment]
    pool.sweep()
    assert pool.is_swept
    assert closed == []
