"""What a start keeps is on the disk, and what was refused stays refused.

Each test is two or three lives: one that ends badly, a restart that finds the page
cache as it was, and perhaps a power cut, after which only the disk is left.
"""

import errno
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.ids import TopicPartition
from broker.storage import committed_position
from broker.storage.entry import ENTRY_HEADER_BYTES, Append, position_of
from broker.storage.layout import HEADER_BLOCK_BYTES, SEAL_AT
from broker.storage.manifest import read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.store import LocalSegmentStore
from tests.broker.storage.driver import (
    WAL,
    Driver,
    damaged_last_group,
    fill,
    held,
)
from tests.support.clock import ManualClock
from tests.support.files import ForgetfulFiles, PowerCut, everything, nothing, pieces

Held = dict[TopicPartition, list[bytes]]
FAILED = OSError(5, "Input/output error")


def a_life(files: ForgetfulFiles, groups: int = 3) -> tuple[Driver, list[Append]]:
    driver = Driver(files)
    appends = []
    for _ in range(groups):
        appends.append(driver.append(size=700))
        driver.finish(appends[-1:])
    return driver, appends


def shown(files: ForgetfulFiles) -> Held:
    """What a start finds; the process is killed as soon as it has started."""
    driver = Driver(files)
    try:
        assert driver.recovery.damage == []
        return held(driver.recovery, driver.wal)
    finally:
        killed(driver)


def killed(driver: Driver) -> None:
    """Its threads end, and nothing more of it reaches any file."""
    assert isinstance(driver.files, ForgetfulFiles)
    driver.files.cut_at = len(driver.files.calls)
    driver.close()


def batches(appends: list[Append]) -> list[bytes]:
    return [bytes(one.batch) for one in appends]


def refused_after_a_failed_sync(groups: int) -> tuple[ForgetfulFiles, list[Append]]:
    files = ForgetfulFiles()
    driver, appends = a_life(files, groups)
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", FAILED)
    refused = driver.append(size=700)
    driver.finish([refused])
    assert refused.error is not None
    files = files.after_kill()
    driver.close()
    return files, appends


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_what_was_refused_does_not_come_back(groups: int) -> None:
    files, appends = refused_after_a_failed_sync(groups)
    for _ in range(2):
        assert shown(files).get((1, 0), []) == batches(appends)
        files = files.after_kill()
    assert shown(files.after_power_cut(nothing)).get((1, 0), []) == batches(appends)


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_what_was_refused_does_not_come_back_without_a_checkpoint(groups: int) -> None:
    """Nor where the committed position is that of another segment by then."""
    files, appends = refused_after_a_failed_sync(groups)
    shown(files)
    files = files.after_kill()
    for name in ("checkpoint", committed_position.NAME):
        files.unlink(WAL / name)
    driver = Driver(files)
    assert held(driver.recovery, driver.wal).get((1, 0), []) == batches(appends)
    killed(driver)


@pytest.mark.parametrize("groups", [0, 1, 3])
@pytest.mark.parametrize("survives", [nothing, everything])
def test_after_a_refusal_and_a_power_cut_nothing_is_called_damage(
    groups: int, survives
) -> None:
    files, appends = refused_after_a_failed_sync(groups)
    there = shown(files.after_power_cut(survives)).get((1, 0), [])
    assert there[: len(appends)] == batches(appends)


def killed_before_the_sync(groups: int) -> tuple[ForgetfulFiles, list[Append]]:
    files = ForgetfulFiles()
    driver, appends = a_life(files, groups)
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", PowerCut("it was killed"))
    appends.append(driver.append(size=700))
    driver.finish(appends[-1:])
    files = files.after_kill()
    driver.close()
    return files, appends


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_what_a_restart_has_shown_survives_a_power_cut(groups: int) -> None:
    """It was never acknowledged, but consumers have seen it since."""
    files, appends = killed_before_the_sync(groups)
    assert shown(files)[1, 0] == batches(appends)
    assert shown(files.after_power_cut(nothing))[1, 0] == batches(appends)


def test_a_tail_whose_sync_failed_at_the_start_is_written_again_at_the_next() -> None:
    """The pages look written: only writing them anew makes the next sync mean it."""
    files, appends = killed_before_the_sync(2)
    files.fail("fdatasync", FAILED)
    with pytest.raises(OSError, match="Input/output"):
        Driver(files)
    files = files.after_kill()
    assert shown(files)[1, 0] == batches(appends)
    assert shown(files.after_power_cut(nothing))[1, 0] == batches(appends)


@pytest.mark.parametrize("survives", [nothing, everything])
def test_a_kill_inside_a_seal_and_a_power_cut_are_no_damage(survives) -> None:
    files = ForgetfulFiles()
    driver, appends = a_life(files)
    files.fail("fdatasync", PowerCut("it was killed"))
    driver.wal.roll()
    driver.until(lambda: files.cut_at is not None)
    files = files.after_kill()
    driver.close()
    again, more = a_life_that_goes_on(files, appends)
    cut = files.after_power_cut(survives)
    killed(again)
    assert shown(cut)[1, 0] == batches(appends + more)


def a_life_that_goes_on(
    files: ForgetfulFiles, before: list[Append]
) -> tuple[Driver, list[Append]]:
    driver = Driver(files)
    driver.next_offset[1, 0] = before[-1].last_offset + 1
    more = [driver.append(size=700)]
    driver.finish(more)
    return driver, more


def test_a_seal_whose_sync_failed_is_made_again() -> None:
    files = ForgetfulFiles()
    driver, appends = a_life(files)
    files.fail("fdatasync", FAILED)
    driver.wal.roll()
    driver.until(lambda: driver.wal.failed is not None)
    files = files.after_kill()
    driver.close()
    again, more = a_life_that_goes_on(files, appends)
    killed(again)
    assert shown(files.after_power_cut(nothing))[1, 0] == batches(appends + more)


class Model:
    """Lives of a log that end by kills and power cuts, on a disk that fails at times.

    ``promised``: acknowledged or shown by a start: it stays for ever. ``refused``: may
    come back after a power cut (the disk may have had it), never after a kill.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = ForgetfulFiles()
        self.promised: Held = {}
        self.refused: set[bytes] = set()
        self.sent = 0

    def live(self) -> None:
        if self.chance.random() < 0.5:
            self.files.fail("fdatasync", FAILED, nth=self.chance.randrange(1, 9))
        if self.chance.random() < 0.5:
            self.files.cut_at = len(self.files.calls) + self.chance.randrange(1, 80)
        try:
            driver = Driver(self.files)
        except OSError:
            return
        for _ in range(self.chance.randrange(6)):
            self._group(driver)
            if self.chance.random() < 0.2:
                driver.wal.roll()
            if self.chance.random() < 0.2:
                driver.wal.checkpoint(b"")
        self.ended = driver

    def _group(self, driver: Driver) -> None:
        group = []
        for partition in self.chance.choices(range(2), k=self.chance.randrange(1, 4)):
            base = driver.next_offset.get((1, partition), 0)
            base = max(base, len(self.promised.get((1, partition), [])))
            driver.next_offset[1, partition] = base
            self.sent += 1
            size = self.chance.choice((90, 700, 1500))
            group.append(driver.append(size, partition, seed=self.sent))
        driver.finish(group)
        for one in group:
            key = one.topic_number, one.partition
            if one.error is None:
                self.promised.setdefault(key, []).append(bytes(one.batch))
            elif self.files.cut_at is None or len(self.files.calls) < self.files.cut_at:
                self.refused.add(bytes(one.batch))  # who was killed told nobody

    def end(self) -> None:
        """Kill it or cut the power; look at what is there."""
        cut = self.chance.random() < 0.4
        before, ended = self.files, self.__dict__.pop("ended", None)
        if cut:
            self.files = before.after_power_cut(pieces(self.chance, 0.5))
        else:
            self.files = before.after_kill()
        if ended is not None:
            killed(ended)
        self.look(cut)

    def look(self, cut: bool) -> None:
        there = shown(self.files)
        for key, promised in self.promised.items():
            assert there.get(key, [])[: len(promised)] == promised
        if not cut:
            came_back = {one for some in there.values() for one in some} & self.refused
            assert not came_back
        self.promised = there
        self.refused -= {one for some in there.values() for one in some}
        self.files = self.files.after_kill()


@settings(max_examples=150, deadline=None)
@example(1)
@given(st.integers(0, 2**32))
def test_no_order_of_failures_takes_back_what_was_promised(seed: int) -> None:
    model = Model(seed)
    for _ in range(5):
        model.live()
        model.end()


def test_a_segment_of_which_all_was_refused_may_be_one_spare_too_many() -> None:
    """Its file was removed, and then the replay of nothing in it found no file."""
    files, _ = refused_after_a_failed_sync(groups=0)
    files.disk_bytes, files.free_bytes = 1 << 30, 1 << 20
    driver = Driver(files, low_space_bytes=32 << 20)  # one spare is kept
    assert list(driver.recovery.replay) == []
    assert driver.recovery.damage == []
    driver.close()


def test_a_segment_says_when_it_was_begun_and_sealed_after_a_restart_as_well() -> None:
    """By these times it is kept or goes."""
    files, clock = ForgetfulFiles(), ManualClock()
    start_ms = clock.now_ms()
    driver = Driver(files, clock=clock)
    driver.finish([driver.append(size=700)])
    clock.advance(1_000)
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    clock.advance(2_000)
    driver.finish([driver.append(size=700)])
    assert times(driver) == [(start_ms, start_ms + 1_000), (start_ms + 3_000, 0)]
    driver.close()
    clock.advance(4_000)
    again = Driver(files.after_kill(), clock=clock)
    assert times(again) == [
        (start_ms, start_ms + 1_000),
        (start_ms + 3_000, start_ms + 7_000),  # sealed by the start
    ]
    again.close()


def test_a_damaged_segment_that_was_not_sealed_counts_as_sealed_by_the_start() -> None:
    """It has no seal and gets none, but is not for ever the oldest."""
    files, clock = ForgetfulFiles(), ManualClock()
    driver, appends = a_life(files)
    driver.close()
    files = files.after_kill()
    [info] = driver.wal.segments()
    file = files.open(info.path)
    files.pwritev(file, [b"\xff" * 8], position_of(appends[1].location) + 100)
    clock.advance(5_000)
    again = Driver(files, clock=clock)
    [found] = again.wal.segments()
    assert (found.intact, found.sealed) == (False, True)
    assert found.sealed_at_ms == clock.now_ms()
    again.close()


def times(driver: Driver) -> list[tuple[int, int]]:
    return [(info.created_ms, info.sealed_at_ms) for info in driver.wal.segments()]


def damaged(files: ForgetfulFiles, one: Append, *, sync: bool = True) -> None:
    """Some bytes of a batch in the only segment are not as they were written. Without
    ``sync`` nothing that waits reaches the disk with them."""
    (info,) = LocalSegmentStore(files, WAL).live()
    file = files.open(info.path)
    files.pwritev(file, [b"damage"], position_of(one.location) + 100)
    if sync:
        files.fdatasync(file)
    files.close(file)


@pytest.mark.parametrize("survives", [None, nothing, everything])
@pytest.mark.parametrize("partition", [0, 1], ids=["its own", "another"])
def test_what_was_refused_behind_damage_does_not_come_back_either(
    partition: int, survives
) -> None:
    """No seal says where a damaged segment ends, and the next life's position is that
    of another one. Whether its offsets are another batch's by then does not matter."""
    files, appends = refused_after_a_failed_sync(3)
    damaged(files, appends[1])
    driver = Driver(files)
    assert len(driver.recovery.damage) == 1
    kept = [appends[0], appends[2]]
    assert held(driver.recovery, driver.wal) == {(1, 0): batches(kept)}
    driver.next_offset[1, 0] = appends[-1].last_offset + 1
    later = driver.append(size=600, partition=partition)
    driver.finish([later])
    files = files.after_kill() if survives is None else files.after_power_cut(survives)
    killed(driver)
    again = Driver(files)
    wanted = {(1, 0): batches(kept)}
    wanted[1, partition] = [*wanted.get((1, partition), []), bytes(later.batch)]
    assert held(again.recovery, again.wal) == wanted
    store = LocalSegmentStore(files, WAL)
    old, new = (info.ranges for info in store.live())
    assert old == {(1, 0): (0, 3)}
    assert new.keys() == {(1, partition)}
    killed(again)


def test_what_a_restart_has_shown_of_a_damaged_segment_survives_a_power_cut() -> None:
    files, appends = killed_before_the_sync(2)
    damaged(files, appends[0], sync=False)
    driver = Driver(files)
    assert len(driver.recovery.damage) == 1
    assert held(driver.recovery, driver.wal)[1, 0] == batches(appends[1:])
    left = files.after_power_cut(nothing)
    killed(driver)
    again = Driver(left)
    assert held(again.recovery, again.wal)[1, 0][-1:] == batches(appends[2:])
    killed(again)


def test_what_a_restart_has_shown_of_a_damaged_sealed_segment_survives_too() -> None:
    """Its seal was written and not synced, and neither was its last group."""
    files, appends = killed_before_the_sync(2)
    files.fail("fdatasync", PowerCut("killed where a start seals"))
    with pytest.raises(PowerCut):
        Driver(files)
    files = files.after_kill()
    damaged(files, appends[0], sync=False)
    driver = Driver(files)
    (info,) = driver.wal.segments()
    assert (info.intact, info.sealed) == (False, True)
    assert held(driver.recovery, driver.wal)[1, 0] == batches(appends[1:])
    damage = driver.recovery.damage
    left = files.after_power_cut(nothing)
    killed(driver)
    again = Driver(left)
    assert held(again.recovery, again.wal)[1, 0] == batches(appends[1:])
    assert again.recovery.damage == damage
    killed(again)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_a_dying_disk_refuses_of_a_damaged_segment_keeps_no_start_from_the_rest(
    is_sealed: bool,
) -> None:
    """Anything else may pass, and the next start then writes it."""
    files, appends = killed_before_the_sync(2)
    if is_sealed:
        files.fail("fdatasync", PowerCut("killed where a start seals"))
        with pytest.raises(PowerCut):
            Driver(files)
        files = files.after_kill()
    damaged(files, appends[0], sync=False)
    files.fail("fdatasync", OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        Driver(files)
    files = files.after_kill()
    files.fail("fdatasync", FAILED)
    driver = Driver(files)
    assert len(driver.recovery.damage) == 1
    assert held(driver.recovery, driver.wal)[1, 0] == batches(appends[1:])
    killed(driver)


def test_a_damaged_segment_is_written_once_more_by_one_start_alone() -> None:
    files, appends = damaged_last_group(ForgetfulFiles())
    (info,) = LocalSegmentStore(files, WAL).live()
    written: list[object] = []
    for _ in range(3):
        files.names[info.path].write = lambda *write: written.append(write)  # type: ignore[method-assign]
        driver = Driver(files)
        assert len(held(driver.recovery, driver.wal)[1, 0]) == len(appends) - 1
        written.append(None)
        files = files.after_kill()
        killed(driver)
    assert written.index(None) > 0
    assert written[written.index(None) :] == [None] * 3


def test_whole_batches_behind_damage_in_the_last_group_stay_for_ever() -> None:
    """Only the first start is told by the committed position that they were durable; no
    later manifest forgets what it wrote down."""
    files, appends = damaged_last_group(ForgetfulFiles())
    kept = [appends[0], *appends[2:]]
    places = (one.location - ENTRY_HEADER_BYTES for one in appends[1:3])
    lost = (*places, True)
    for life in range(3):
        driver = Driver(files)
        assert held(driver.recovery, driver.wal)[1, 0] == batches(kept)
        assert driver.recovery.lost == [lost]
        assert f"bytes {position_of(lost[0])} to {position_of(lost[1])}" in str(
            driver.recovery.damage
        )
        driver.next_offset[1, 0] = 10 + life  # a lawful gap behind it
        kept.append(driver.append(size=600))
        driver.finish(kept[-1:])
        payload = b"%d" % life
        driver.wal.checkpoint(payload)
        driver.until(lambda files=files, payload=payload: noted(files) == payload)
        files = files.after_kill()
        killed(driver)
    store = LocalSegmentStore(files, WAL)
    assert [info.ranges[1, 0][1] for info in store.live()] == [4, 11, 12, 13]


def noted(files: ForgetfulFiles) -> bytes | None:
    """The payload of the checkpoint."""
    manifest = read_manifest(LocalObjects(files, WAL))
    return None if manifest is None else manifest.payload


def test_a_start_writes_a_position_where_that_is_lost() -> None:
    """Else nothing tells others, until somebody writes, that a segment was sealed."""
    driver = Driver(ForgetfulFiles())
    appends = fill(driver, 1)
    info = driver.wal.segments()[-1]
    driver.close()
    files = driver.files.after_kill()
    place = position_of(appends[-1].location) + 100
    files.pwritev(files.open(info.path), [b"damage"], place)
    files.pwritev(files.open(WAL / committed_position.NAME), [b"damage"], 0)
    Driver(files).close()
    noted = committed_position.read_committed_position(files, WAL)
    assert noted is not None
    assert noted.sequence > info.sequence


def two_segments(*sizes: int) -> tuple[ForgetfulFiles, Path]:
    """A sealed segment with batches of these sizes and one behind it with another, when
    the process was killed; and where the first one is."""
    driver = Driver(ForgetfulFiles())
    driver.finish([driver.append(size=size) for size in sizes])
    driver.wal.roll()
    driver.until(lambda: len(driver.sealed) == 1)
    driver.finish([driver.append(partition=1)])
    path = driver.sealed[0].path
    files = driver.files.after_kill()
    driver.close()
    return files, path


def zeroed(files: ForgetfulFiles, path: Path, start: int, end: int) -> None:
    """These bytes, and the seal, are lost."""
    file = files.open(path)
    files.pwritev(file, [bytes(HEADER_BLOCK_BYTES - SEAL_AT)], SEAL_AT)
    files.pwritev(file, [bytes(end - start)], start)
    files.fdatasync(file)


def alone(driver: Driver, sequence: int) -> None:
    """All other segments are released, and have gone."""
    for number in driver.numbers() - {sequence}:
        driver.wal.release(number)
    driver.wal.checkpoint(b"")
    driver.until(lambda: driver.numbers() == {sequence})


@pytest.mark.parametrize("lost", [None, "checkpoint", committed_position.NAME])
@pytest.mark.parametrize("sizes", [(700,), (500, 700)], ids=["nothing", "the first"])
def test_a_segment_without_seal_is_damaged_also_when_it_is_the_last_one_left(
    sizes: tuple[int, ...], lost: str | None
) -> None:
    """Whatever is whole in it: it had a successor, so nothing of it is a torn tail. It
    is kept until it is released, and its file is not used again."""
    files, path = two_segments(*sizes)
    end = HEADER_BLOCK_BYTES + sum(sizes) + ENTRY_HEADER_BYTES * len(sizes)
    zeroed(files, path, end - sizes[-1] - ENTRY_HEADER_BYTES, end)
    damage = "segment 4: it has a successor and no readable seal"
    for life in range(3):
        driver = Driver(files)
        assert damage in driver.recovery.damage
        assert driver.recovery.lost[0].damaged
        info = driver.wal.segments()[0]
        assert (info.sequence, info.intact, info.sealed) == (4, False, True)
        assert info.batches == len(sizes) - 1
        alone(driver, 4)
        if life < 2:
            files = files.after_kill()
            driver.close()
        if life == 0 and lost is not None:
            del files.names[WAL / lost]
        if life or lost != "checkpoint":
            store = LocalSegmentStore(files, WAL)
            assert [one.sequence for one in store.live()] == [4]
            assert store.holes(4)
    driver.wal.release(4)
    driver.until(lambda: not driver.numbers())
    driver.close()
    assert WAL / "damaged-4.log" in files.names
    assert path not in files.names


def test_a_segment_without_seal_is_damaged_where_its_successors_file_is_gone() -> None:
    """No checkpoint knows of that one yet, but the committed position does: it was
    written to. So the one before it was synced, and no start writes it once more."""
    files, path = two_segments(500, 700)
    _, behind = LocalSegmentStore(files, WAL).live()
    end = HEADER_BLOCK_BYTES + 500 + 700 + 2 * ENTRY_HEADER_BYTES
    zeroed(files, path, end - 700 - ENTRY_HEADER_BYTES, end)
    files.unlink(behind.path)
    written: list[object] = []
    files.names[path].write = lambda *write: written.append(write)  # type: ignore[method-assign]
    driver = Driver(files)
    damage = "segment 4: it has a successor and no readable seal"
    assert damage in driver.recovery.damage
    assert driver.recovery.lost[0].damaged
    assert written == []
    driver.close()
