"""Spare segment files: ready before they are needed, and gone when too many."""

import errno
import threading

import pytest

from broker.storage.pool import NoSlot, SlotPool
from broker.storage.segment import Slot
from tests.broker.storage.driver import SEGMENT_BYTES, WAL
from tests.support.files import ForgetfulFiles, nothing


def a_pool(files: ForgetfulFiles, spare: int = 1, free_max: int = 3) -> SlotPool:
    return SlotPool(files, WAL, SEGMENT_BYTES, spare, free_max, lambda: None)


def test_a_prepared_slot_survives_a_power_cut_with_its_zeros() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files)
    pool.prepare()
    slot = pool.take()
    left = files.after_power_cut(nothing)
    assert left.names[slot.path].durable == bytes(SEGMENT_BYTES)


def test_it_wants_as_many_as_there_should_be() -> None:
    pool = a_pool(ForgetfulFiles(), spare=2)
    wants = []
    for _ in range(3):
        wants.append(pool.wants())
        pool.prepare()
    assert wants == [True, True, False]
    pool.close()
    assert not pool.wants()


def test_who_waits_gets_the_slot_that_is_made() -> None:
    pool = a_pool(ForgetfulFiles(), spare=0)
    taken: list[Slot] = []
    taker = threading.Thread(target=lambda: taken.append(pool.take()))
    taker.start()
    while not pool.wants():
        pass
    pool.prepare()
    taker.join(10)
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
    assert files.listdir(WAL) == []
    assert pool.take().size == SEGMENT_BYTES


def test_slots_beyond_the_bound_or_of_another_size_are_removed() -> None:
    files = ForgetfulFiles()
    pool = a_pool(files, spare=1, free_max=2)
    for _ in range(4):
        pool.prepare()
    assert len(files.listdir(WAL)) == 2
    path = WAL / "segment-0099.log"
    pool.give(Slot(99, path, files.create(path), 10))
    assert path.name not in files.listdir(WAL)
