"""The log: one sync per group, order, refusals, checkpoints, releases."""

import errno
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.protocol.errors import ErrorCode, KafkaError
from broker.storage.entry import Append, position_of, sequence_of
from broker.storage.files import PosixFiles
from broker.storage.recycler import QUIET_MS
from broker.storage.wal import SLOTS_AT_ONCE, StaleSegment
from broker.storage.writer import COMPLETED_A_TURN, GATHERED_BYTES_MAX
from tests.broker.storage.driver import (
    SEGMENT_BYTES,
    Driver,
    an_append,
    batch,
    fill,
    held,
    plugged,
)
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


def test_a_batch_is_told_durable_and_can_be_read(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    one = driver.append(size=300)
    driver.finish([one])
    assert one.error is None
    assert driver.wal.read([(one.location, 300)]) == [one.batch]
    assert driver.wal.view(one.location, 300) == one.batch
    driver.close()


def test_what_is_needed_of_a_segment_is_asked_of_its_file(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    driver.finish([driver.append(size=300), driver.append(size=400, partition=1)])
    [active] = driver.wal.segments()
    assert driver.wal.part_of(active.sequence, {(1, 1): 0}) is None
    driver.wal.roll()
    driver.until(lambda: bool(driver.sealed))
    [sealed] = driver.wal.segments()
    assert driver.wal.part_of(sealed.sequence, {(1, 1): 0}) == (400, 1)
    files.fail("pread", OSError(errno.EBADF, "closed by a release meanwhile"))
    assert driver.wal.part_of(sealed.sequence, {(1, 1): 0}) is None
    assert driver.wal.part_of(sealed.sequence, {(1, 1): 0}) == (400, 1)
    files.pwritev(files.open(sealed.path), [b"\xff" * 72], sealed.bytes)
    assert driver.wal.part_of(sealed.sequence, {(1, 1): 0}) is None
    driver.wal.release(sealed.sequence)
    assert driver.wal.part_of(sealed.sequence, {(1, 1): 0}) is None
    driver.close()


def test_what_waits_shares_one_sync_and_one_call_on_the_loop(
    files: ForgetfulFiles,
) -> None:
    driver, first, gate = plugged(files, segment_bytes=64 << 10)
    before = files.count("fdatasync")
    rest = [driver.append(partition=i % 3) for i in range(50)]
    gate.set()
    driver.finish([first, *rest])
    assert files.count("fdatasync") - before == 2
    assert driver.finished == [first, *rest]
    driver.close()


def test_a_large_group_is_handed_back_a_part_in_each_turn(
    files: ForgetfulFiles,
) -> None:
    turns: list[Callable[[], None]] = []
    driver, first, gate = plugged(files, next_turn=turns.append, segment_bytes=8 << 20)
    rest = [driver.append(partition=i % 3) for i in range(2 * COMPLETED_A_TURN + 500)]
    gate.set()
    driver.finish([first])
    done = [len(driver.finished)]
    while len(driver.finished) <= len(rest):
        before, position = len(driver.finished), driver.wal.finished()
        if turns:
            turns.pop(0)()
        else:
            driver.turn()
        done.append(len(driver.finished) - before)
        last = driver.finished[-1]
        assert (driver.wal.finished() > position) == (done[-1] > 0)
        assert driver.wal.finished()[1] == position_of(last.location) + 100
    assert driver.finished == [first, *rest]
    assert max(done) == COMPLETED_A_TURN
    driver.close()


def test_what_waits_for_its_turn_is_handed_back_when_the_log_closes(
    files: ForgetfulFiles,
) -> None:
    turns: list[Callable[[], None]] = []
    driver, first, gate = plugged(files, next_turn=turns.append, segment_bytes=8 << 20)
    appends = [first, *(driver.append() for _ in range(3 * COMPLETED_A_TURN))]
    gate.set()
    while len(driver.finished) < 2:
        driver.turn()
    assert len(driver.finished) < len(appends)
    driver.close()
    assert driver.finished == appends
    for turn in turns:
        turn()
    assert driver.finished == appends


def test_what_comes_in_one_turn_after_a_group_goes_to_the_writer_together(
    files: ForgetfulFiles,
) -> None:
    turns: list[Callable[[], None]] = []
    driver, first, gate = plugged(files, next_turn=turns.append, segment_bytes=1 << 20)
    several = [driver.append() for _ in range(2)]
    gate.set()
    driver.finish([first, *several])
    before = files.count("fdatasync")
    together = [driver.append(partition=1) for _ in range(9)]
    assert len(turns) == 1
    turns.pop()()
    driver.finish(together)
    assert files.count("fdatasync") == before + 1

    behind = [driver.append(partition=1) for _ in range(2)]
    driver.wal.roll()  # and does not overtake them
    driver.finish(behind)
    driver.until(lambda: len(driver.sealed) == 1)
    assert driver.sealed[0].ranges[1, 1][1] == behind[-1].last_offset + 1
    large = driver.append(size=GATHERED_BYTES_MAX)
    assert len(turns) == 2
    driver.finish([large])  # it waits for no turn
    driver.close()


def test_batches_of_all_sizes_come_back_in_order_over_many_segments(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    sizes = [70, 5000, 61, 900, 12000, 100] * 10
    appends = [driver.append(size=size, partition=size % 2) for size in sizes]
    driver.finish(appends)
    for one in appends:
        assert driver.wal.read([(one.location, len(one.batch))]) == [one.batch]
    locations = [one.location for one in appends]
    assert locations == sorted(locations)
    infos = driver.wal.segments()
    assert [info.sealed for info in infos] == [True] * (len(infos) - 1) + [False]
    assert [info.sequence for info in driver.sealed] == [
        info.sequence for info in infos[:-1]
    ]
    driver.close()


def test_segments_say_which_offsets_they_hold(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    driver.finish([driver.append(partition=p, records=5) for p in (0, 1, 0)])
    (info,) = driver.wal.segments()
    assert info.ranges == {(1, 0): (0, 10), (1, 1): (0, 5)}
    driver.close()


def test_a_refused_batch_is_not_written_and_does_not_stop_the_others(
    files: ForgetfulFiles,
) -> None:
    def refuse_third(append: Append) -> None:
        if append.base_offset == 2:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the third")

    driver = Driver(files, inspect=refuse_third)
    appends = [driver.append() for _ in range(5)]
    driver.finish(appends)
    assert [one.error is None for one in appends] == [True, True, False, True, True]
    assert appends[2].location == -1
    driver.close()
    again = Driver(files.after_kill())
    assert again.recovery.columns[1, 0].base.tolist() == [0, 1, 3, 4]
    again.close()


def of_producer(base_offset: int, producer_id: int, told: list[Append]) -> Append:
    one = an_append(batch(base_offset), done=told.append)
    one.header = one.header._replace(producer_id=producer_id)
    return one


def test_a_refusal_takes_what_follows_of_the_producer_until_the_loop_knows(
    files: ForgetfulFiles,
) -> None:
    def refuse_first(append: Append) -> None:
        if append.base_offset == 0:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the first")

    driver = Driver(files, inspect=refuse_first)
    told: list[Append] = []
    unknowing = [of_producer(n, producer, told) for n, producer in enumerate([7, 7, 8])]
    for groups, one in enumerate(unknowing, start=1):
        driver.wal.append(one)
        while driver.calls.qsize() < groups:  # the loop hears of none of them yet
            time.sleep(0.001)
    while len(told) < 3:
        driver.turn()
    assert [one.error and one.error.code for one in unknowing] == [
        ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None,
    ]  # fmt: skip
    knowing = of_producer(3, 7, told)
    driver.wal.append(knowing)
    while knowing not in told:
        driver.turn()
    assert knowing.error is None
    driver.close()


def test_a_batch_larger_than_a_segment_is_refused(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    large, small = driver.append(size=SEGMENT_BYTES), driver.append()
    driver.finish([large, small])
    assert large.error is not None
    assert large.error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert small.error is None
    driver.close()


def test_the_largest_batch_that_fits_is_written(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    one = driver.append(size=SEGMENT_BYTES - 4096 - 48 - 36)
    driver.finish([one])
    assert one.error is None
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    driver.close()
    again = Driver(files.after_kill())
    assert held(again.recovery, again.wal) == {(1, 0): [one.batch]}
    again.close()


def test_a_failed_sync_fails_who_waits_and_is_never_tried_again(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    kept = driver.append()
    driver.finish([kept])
    driver.until(lambda: files.count("allocate") == 2)
    files.fail("fdatasync", OSError(errno.EIO, "the disk is dying"))
    lost = driver.append()
    driver.finish([lost])
    syncs = files.count("fdatasync")
    later = driver.append()
    driver.finish([later])
    for one in (lost, later):
        assert one.error is not None
        assert one.error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.wal.failed is not None
    assert driver.wal.read([(kept.location, 100)]) == [kept.batch]
    driver.close()
    assert files.count("fdatasync") == syncs


def test_a_failed_write_is_a_failed_log(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    driver.finish([driver.append()])
    files.fail("pwritev", OSError(errno.EIO, "the disk is dying"))
    lost = driver.append()
    driver.finish([lost])
    assert lost.error is not None
    assert driver.wal.failed is not None
    driver.close()


def test_a_full_disk_refuses_until_there_is_space(files: ForgetfulFiles) -> None:
    files.fail("allocate", OSError(errno.ENOSPC, "no space"))
    driver = Driver(files, spare_segments=0)
    refused = driver.append()
    driver.finish([refused])
    assert refused.error is not None
    assert refused.error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.wal.failed is None
    accepted = driver.append()
    driver.finish([accepted])
    assert accepted.error is None
    driver.close()
    again = Driver(files.after_kill())
    assert not again.recovery.damage
    assert held(again.recovery, again.wal) == {(1, 0): [accepted.batch]}
    again.close()


def test_a_full_disk_in_mid_group_keeps_what_was_durable(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files, spare_segments=0)
    driver.finish([driver.append()])
    files.fail("allocate", OSError(errno.ENOSPC, "no space"))
    appends = [driver.append(size=1000) for _ in range(20)]
    driver.finish(appends)
    written = [one for one in appends if one.error is None]
    assert 0 < len(written) < 20
    for one in written:
        assert driver.wal.read([(one.location, 1000)]) == [one.batch]
    driver.close()


def test_a_released_segment_is_used_again_once_the_checkpoint_is_behind_it(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    old = fill(driver, 3)
    made = files.count("allocate")
    released = [info.sequence for info in driver.wal.segments()[:3]]
    for sequence in released:
        driver.wal.release(sequence)
    with pytest.raises(StaleSegment):
        driver.wal.read([(old[0].location, 1000)])
    assert driver.wal.view(old[0].location, 1000) is None
    assert driver.wal.segments()[:1] != released[:1]
    driver.wal.checkpoint(b"state")
    driver.until(lambda: not set(released) & driver.numbers())
    fill(driver, 3)
    assert files.count("allocate") <= made + 1
    driver.close()


def test_a_release_waits_for_the_checkpoint(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    appends = fill(driver, 1)
    for info in driver.wal.segments():
        driver.wal.release(info.sequence)
    driver.close()
    again = Driver(files.after_kill())
    assert len(again.recovery.replay) == len(appends)
    again.close()


def test_a_slot_is_not_used_while_a_view_is_alive(tmp_path: Path) -> None:
    driver = Driver(PosixFiles(), tmp_path / "wal")
    (one, *_) = fill(driver, 1)
    view = driver.wal.view(one.location, 1000)
    assert view is not None
    sequence = sequence_of(one.location)
    driver.wal.release(sequence)
    driver.wal.checkpoint(b"")
    driver.until(lambda: (tmp_path / "wal" / "checkpoint").stat().st_size > 0)
    fill(driver, 3)
    assert view == one.batch
    assert sequence in driver.numbers()
    view.release()
    driver.until(lambda: sequence not in driver.numbers())
    driver.close()


def test_one_bad_callback_does_not_rob_the_others(files: ForgetfulFiles) -> None:
    driver = Driver(files)

    def bad(append: Append) -> None:
        raise ValueError("a fault of the listener")

    driver.wal.append(an_append(batch(0), partition=7, done=bad))
    good = driver.append()
    driver.finish([good])
    assert good.error is None
    driver.close()


def test_close_finishes_what_waits(files: ForgetfulFiles) -> None:
    driver = Driver(files)
    appends = [driver.append(size=500) for _ in range(40)]
    driver.finish(appends)
    driver.wal.checkpoint(b"at the end")
    driver.close()
    assert [one.error for one in appends] == [None] * 40
    again = Driver(files.after_kill())
    assert again.recovery.payload == b"at the end"
    assert len(again.recovery.replay) == 0
    again.close()


def test_what_the_loop_had_not_heard_of_at_the_checkpoint_is_replayed(
    files: ForgetfulFiles,
) -> None:
    """Its state knows what was finished; the rest comes again, durable or not."""
    driver = Driver(files)
    driver.finish([driver.append(size=500)])
    unheard = [driver.append(size=500) for _ in range(40)]
    while unheard[-1].location < 0:
        time.sleep(0.001)
    driver.wal.checkpoint(b"after one")
    driver.close()
    again = Driver(files.after_kill())
    assert again.recovery.payload == b"after one"
    replayed = [header.base_offset for _, _, header, *_ in again.recovery.replay]
    assert replayed == [one.base_offset for one in unheard]
    again.close()


def test_a_checkpoint_at_a_seal_needs_nothing_of_the_sealed_segment(
    files: ForgetfulFiles,
) -> None:
    driver = Driver(files)
    driver.finish([driver.append(size=500)])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    driver.wal.checkpoint(b"all")
    driver.wal.release(driver.sealed[0].sequence)
    driver.until(lambda: not driver.numbers())
    driver.close()


def test_spares_are_made_before_they_are_needed(files: ForgetfulFiles) -> None:
    driver = Driver(files, spare_segments=3)
    driver.until(lambda: files.count("allocate") == 1)
    driver.finish([driver.append()])
    driver.until(lambda: files.count("allocate") == 2)
    driver.close()


def test_free_slots_beyond_the_bound_are_removed(files: ForgetfulFiles) -> None:
    driver = Driver(files, spare_segments=1, free_segments_max=2)
    fill(driver, 6)
    for info in driver.wal.segments():
        driver.wal.release(info.sequence)
    driver.wal.checkpoint(b"")
    driver.until(lambda: not driver.numbers())
    driver.until(lambda: len(_slots(files)) <= 3)
    driver.close()


def _slots(files: ForgetfulFiles) -> list[Path]:
    return [path for path in files.names if path.suffix == ".log"]


def test_a_sealed_segment_is_described_once_for_all(files: ForgetfulFiles) -> None:
    """Who asks five times a second must not copy what a thousand segments hold."""
    driver = Driver(files)
    driver.finish([driver.append(), driver.append(partition=1)])
    active = driver.wal.segments()[-1]
    driver.finish([driver.append()])
    assert active.ranges == {(1, 0): (0, 1), (1, 1): (0, 1)}  # as it was then
    driver.wal.roll()
    driver.until(lambda: driver.wal.segments()[-1].sealed)
    (sealed,) = driver.wal.segments()
    assert driver.wal.segments()[0] is sealed
    ranges = {(1, 0): (0, 2), (1, 1): (0, 1)}
    assert sealed.ranges == driver.wal.ranges(sealed.sequence) == ranges
    driver.wal.release(sealed.sequence)
    assert driver.wal.ranges(sealed.sequence) == {}
    driver.close()


def test_files_are_wanted_while_it_is_written_and_none_is_ready(
    files: ForgetfulFiles,
) -> None:
    clock = ManualClock()
    driver = Driver(files, clock=clock, spare_segments=1)
    wal, pool = driver.wal, driver.wal._pool
    driver.until(lambda: not pool.could_warm())  # the first one is written
    assert (wal.is_busy(), wal.slots_wanted) == (False, 0)
    driver.finish([driver.append()])
    driver.until(lambda: not pool.wants())
    assert (wal.is_busy(), wal.slots_wanted) == (True, SLOTS_AT_ONCE)
    clock.advance(QUIET_MS - 1)
    assert (wal.is_busy(), wal.slots_wanted) == (True, SLOTS_AT_ONCE)
    clock.advance(1)
    assert (wal.is_busy(), wal.slots_wanted) == (False, 0)
    driver.until(lambda: not pool.is_short)  # there was time to write the next
    driver.finish([driver.append()])
    assert (wal.is_busy(), wal.slots_wanted) == (True, 0)
    wal.stalled = "the disk does not answer"
    assert (wal.trouble, wal.slots_wanted) == (wal.stalled, sys.maxsize)
    driver.close()
