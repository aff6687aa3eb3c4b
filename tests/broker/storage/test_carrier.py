"""Segments are carried into one: what fails or stops changes nothing."""

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import failpoints
from broker.storage import carrier, carry
from broker.storage.carrier import Carrier
from broker.storage.carry import Carried, Kept
from broker.storage.entry import sequence_of
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import Manifest, read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.segment import SegmentInfo
from broker.storage.store import LocalSegmentStore
from broker.storage.wal import Wal
from tests.broker.storage.driver import WAL, Driver, held
from tests.broker.storage.told import (
    SMALL_SEGMENT,
    Told,
    check,
    check_found,
    go_on,
    noted,
)
from tests.support.files import (
    ForgetfulFiles,
    PowerCut,
    Survives,
    everything,
    nothing,
    pieces,
)

STUCK, BUSY = 0, 1
"""Partitions: a table takes no commits of the first, and all of the second."""
SIZES = {STUCK: 150, BUSY: 300}


def open_log(files: ForgetfulFiles, **options: object) -> Driver:
    driver = Driver(files, segment_bytes=SMALL_SEGMENT, **options)
    go_on(driver)
    return driver


def fill(driver: Driver, told: Told, segments: int = 4) -> None:
    """Sealed segments that hold two batches of the stuck partition each; behind them a
    checkpoint and an active one."""
    for number in range(segments + 1):
        if driver.wal.failed is not None:
            return
        parts = [BUSY, STUCK, BUSY, BUSY, STUCK, BUSY]
        group = [told.send(driver, SIZES[part], part) for part in parts]
        driver.finish([one for one in group if one not in driver.finished])
        told.listen(driver)
        if number < segments:
            driver.wal.roll()
            driver.until(lambda: is_over(driver, all_sealed))
    checkpoint(driver, told)


def all_sealed(wal: Wal) -> bool:
    return all(info.sealed for info in wal.segments())


def is_over(driver: Driver, condition: Callable[[Wal], bool]) -> bool:
    return driver.wal.failed is not None or condition(driver.wal)


def checkpoint(driver: Driver, told: Told) -> None:
    driver.wal.checkpoint(noted(told))
    if driver.wal.failed is None:
        sealed = [info.sequence for info in driver.wal.segments() if info.sealed]
        even = [sequence for sequence in sealed if sequence % 2 == 0]
        driver.until(
            lambda: is_over(driver, lambda wal: all(map(wal.takes_behind, even[-1:])))
        )


def carried(
    driver: Driver, told: Told, run: list[SegmentInfo], needed: dict[int, int]
) -> Carried | None:
    """Carry what of these is not below ``needed`` (partition -> offset) and release."""
    for info in run:
        for (_, part), (first, end) in info.ranges.items():
            gone = range(first, min(end, needed[part]))
            told.released |= {(1, part, offset) for offset in gone}
    heard: list[Carried | None] = []
    offsets = {(1, part): offset for part, offset in needed.items()}
    driver.wal.carry([info.sequence for info in run], offsets, heard.append)
    driver.until(lambda: bool(heard) or driver.wal.failed is not None)
    result = heard[0] if heard else None
    if result is not None:
        for sequence in result.sequences:
            driver.wal.release(sequence)
    return result


def end_of(driver: Driver, part: int) -> int:
    return driver.next_offset.get((1, part), 0)


def carry_all(driver: Driver, told: Told) -> Carried | None:
    run = [info for info in driver.wal.segments() if info.sealed]
    return carried(driver, told, run, {STUCK: 0, BUSY: end_of(driver, BUSY)})


def test_the_others_segments_go_and_the_batches_are_where_they_are_said_to_be() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    before = [info.sequence for info in driver.wal.segments()]
    result = carry_all(driver, told)
    assert result is not None
    assert result.sequences == tuple(before[:-1])
    assert [info.sequence for info in driver.wal.segments()] == [
        result.sequence,
        before[-1],
    ]
    assert before[-2] < result.sequence < before[-1]
    old, new = result.moves[1, STUCK]
    assert set(result.moves) == {(1, STUCK)}
    assert [sequence_of(place) for place in old.tolist()] == sorted(before[:-1] * 2)
    assert new.tolist() == sorted(new.tolist())
    batches = driver.wal.read([(place, SIZES[STUCK]) for place in new.tolist()])
    assert batches == [told.acknowledged[1, STUCK, n] for n in range(8)]
    driver.close()
    check(files.after_kill(), told)


def test_old_files_are_used_again_and_the_new_one_is_released_as_any_other() -> None:
    driver = open_log(ForgetfulFiles())
    told = Told()
    fill(driver, told)
    result = carry_all(driver, told)
    assert result is not None
    numbers = driver.numbers
    driver.until(lambda: not set(result.sequences) & numbers())
    driver.wal.release(result.sequence)
    driver.until(lambda: result.sequence not in numbers())
    driver.close()


def test_what_was_carried_is_carried_again_with_others() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told, 2)
    first = carry_all(driver, told)
    assert first is not None
    driver.wal.roll()
    fill(driver, told, 2)
    second = carry_all(driver, told)
    assert second is not None
    assert second.sequences[0] == first.sequence
    driver.close()
    check(files.after_power_cut(nothing), told)


def test_a_restart_replays_nothing_of_it() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    result = carry_all(driver, told)
    assert result is not None
    driver.close()
    driver = open_log(files.after_kill())
    replayed = {sequence_of(place) for *_, place in driver.recovery.replay}
    assert result.sequence not in replayed
    assert driver.recovery.damage == []
    places = driver.recovery.columns[1, STUCK].location
    assert (np.diff(places) > 0).all()
    driver.close()


def test_a_damaged_batch_is_not_carried_and_all_stays() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files, hot_bytes=0)
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    columns = LocalSegmentStore(files, WAL)
    columns.live()
    place = int(columns.columns(run[1].sequence)[1, STUCK].location[0]) & 0xFFFFFFFF
    file = files.open(run[1].path)
    files.pwritev(file, [b"\xff"], place + 80)
    names = set(files.listdir(WAL))
    assert carry_all(driver, told) is None
    assert [info.intact for info in driver.wal.segments()[:4]] == [
        True,
        False,
        True,
        True,
    ]
    assert len(driver.wal.segments()) == 5
    assert {n for n in files.listdir(WAL) if n.startswith("segment")} <= names
    driver.close()


@pytest.mark.parametrize(
    ("choose", "why"),
    [
        (lambda run: run[-1:], "the active one"),
        (lambda run: [replace(run[0], sequence=run[0].sequence + 1)], "no such one"),
    ],
)
def test_what_cannot_be_carried_stays(
    choose: Callable[[list[SegmentInfo]], list[SegmentInfo]], why: str
) -> None:
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told, 1)
    run = choose(driver.wal.segments())
    assert carried(driver, told, run, {STUCK: 0, BUSY: 0}) is None, why
    assert len(driver.wal.segments()) == 2
    driver.close()


@pytest.mark.parametrize("release", [False, True])
def test_no_batch_is_carried_behind_one_that_follows_it(release: bool) -> None:
    """A start would find the batches of a partition out of order, and end there."""
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    between = run.pop(1)
    if release:  # but somebody holds a view of it: a start would find it still
        view = a_view(driver, between)
        driver.wal.release(between.sequence)
    assert carried(driver, told, run, {STUCK: 0, BUSY: 1 << 40}) is None
    if release:
        view.release()
        driver.until(lambda: between.sequence not in driver.numbers())
        assert carried(driver, told, run, {STUCK: 0, BUSY: 1 << 40}) is not None
    driver.close()


def a_view(driver: Driver, info: SegmentInfo) -> memoryview:
    """Of a batch in the segment: while it is alive the file is not used again."""
    columns = LocalSegmentStore(driver.files, WAL)
    columns.live()
    [place, *_] = columns.columns(info.sequence)[1, STUCK].location.tolist()
    view = driver.wal.view(place, SIZES[STUCK])
    assert view is not None
    return view


def test_what_was_released_is_not_carried() -> None:
    """Its file is there only as long as somebody holds a view of it."""
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    view = a_view(driver, run[-1])
    driver.wal.release(run[-1].sequence)
    assert run[-1].sequence in driver.numbers()
    assert carried(driver, told, run, {STUCK: 0, BUSY: 1 << 40}) is None
    view.release()
    driver.close()


def test_no_file_is_used_again_while_it_is_copied() -> None:
    """Its records came into their tables, and it was released, in mid-copy."""
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files, hot_bytes=0)
    fill(driver, told)
    run = [info.sequence for info in driver.wal.segments() if info.sealed]
    there: list[bool] = []

    def look(name: str) -> None:
        if name == "carry.begun":
            for sequence in run:
                driver.wal.release(sequence)
        elif name == "carry.written":
            there.extend(sequence in driver.numbers() for sequence in run)

    heard: list[Carried | None] = []
    failpoints.watch(look)
    try:
        driver.wal.carry(run, {(1, BUSY): end_of(driver, BUSY)}, heard.append)
        driver.until(lambda: bool(heard))
    finally:
        failpoints.watch(None)
    assert there == [True] * len(run)
    [result] = heard
    assert result is not None
    driver.until(lambda: not set(run) & driver.numbers())
    _, places = result.moves[1, STUCK]
    batches = driver.wal.read([(place, SIZES[STUCK]) for place in places.tolist()])
    assert batches == [told.acknowledged[1, STUCK, n] for n in range(8)]
    driver.close()


@pytest.mark.parametrize("damaged", [True, False])
def test_nothing_is_carried_over_a_damaged_segment(damaged: bool) -> None:
    """Who knows what of the others it held."""
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told, 1)
    driver.wal.roll()
    driver.until(lambda: all_sealed(driver.wal))
    driver.finish([told.send(driver, SIZES[BUSY], BUSY)])
    driver.wal.roll()
    driver.until(lambda: all_sealed(driver.wal))
    fill(driver, told, 1)
    run = [info for info in driver.wal.segments() if info.sealed]
    [between] = [info for info in run if (1, STUCK) not in info.ranges]
    run.remove(between)
    if damaged:
        driver.wal._segments.mark_damaged(between.sequence)
    result = carried(driver, told, run, {STUCK: 0, BUSY: 1 << 40})
    assert (result is None) == damaged
    driver.close()


def test_while_an_unfinished_file_cannot_be_removed_its_number_is_not_given() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    removed = files.count("unlink")

    def break_down(name: str) -> None:
        if name == "carry.begun":
            files.fail("pwritev", OSError(28, "No space left on device"))
            files.fail("unlink", OSError(5, "Input/output error"))

    failpoints.watch(break_down)
    try:
        assert carry_all(driver, told) is None
    finally:
        failpoints.watch(None)
    assert files.count("unlink") > removed
    assert carry_all(driver, told) is None
    driver.close()
    check(files.after_kill(), told)


def test_nothing_is_written_where_nothing_is_needed() -> None:
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    passed: list[str] = []
    failpoints.watch(passed.append)
    try:
        assert carried(driver, told, run, {STUCK: 1 << 40, BUSY: 1 << 40}) is None
    finally:
        failpoints.watch(None)
    assert "carry.begun" not in passed
    driver.close()


def test_between_two_segments_that_are_looked_at_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A segment of ten thousand partitions takes long, and the writer may wait."""
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told)
    step, look = Carrier.step, carrier.kept_of
    steps: list[int] = []

    def counted(self: Carrier, manifest: Manifest) -> None:
        steps.append(0)
        step(self, manifest)

    def looking(*more: Any) -> Kept:
        steps[-1] += 1
        return look(*more)

    monkeypatch.setattr(Carrier, "step", counted)
    monkeypatch.setattr(carrier, "kept_of", looking)
    assert carry_all(driver, told) is not None
    assert sum(steps) == 4
    assert max(steps) == 1
    driver.close()


def test_more_than_fits_into_one_stays() -> None:
    driver, told = open_log(ForgetfulFiles()), Told()
    fill(driver, told, 6)
    run = [info for info in driver.wal.segments() if info.sealed]
    assert carried(driver, told, run, {STUCK: 0, BUSY: 0}) is None
    assert len(driver.wal.segments()) == 7
    driver.close()


def test_segments_of_the_first_numbering_have_no_place_behind_them() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    driver.close()
    left = files.after_kill()
    as_the_first_version(left)
    driver = open_log(left)
    assert driver.recovery.damage == []
    run = [info for info in driver.wal.segments() if info.sealed]
    driver.wal.checkpoint(noted(told))
    assert carry_all(driver, told) is None
    assert not any(driver.wal.takes_behind(info.sequence) for info in run)
    fill(driver, told, 2)
    result = carry_all(driver, told)
    assert result is not None
    assert result.sequences[0] == run[0].sequence
    driver.close()
    check(left.after_kill(), told)


def as_the_first_version(files: ForgetfulFiles) -> None:
    """Write the manifest as a broker did that knew nothing of carried segments."""
    found = read_manifest(LocalObjects(files, WAL))
    assert found is not None
    payload = found.payload or b""
    head = struct.pack(
        "<8sQQQIIQ", b"LAKECKP1", found.sequence, found.position, found.known,
        len(found.live), 1, len(payload),
    )  # fmt: skip
    head += struct.pack(f"<{len(found.live)}Q", *sorted(found.live))
    sums = [struct.pack("<I", crc32c(part)) for part in (head, payload)]
    LocalObjects(files, WAL).replace("checkpoint", [head, sums[0], payload, sums[1]])


def files_of(driver: Driver) -> ForgetfulFiles:
    assert isinstance(driver.files, ForgetfulFiles)
    return driver.files


def live(files: ForgetfulFiles, told: Told, seed: int, rounds: int = 3) -> int:
    """Fill, carry, release, again and again; how often something was carried."""
    chance = random.Random(seed)
    done = 0
    try:
        driver = open_log(files)
    except PowerCut:
        return 0
    needed = {STUCK: 0, BUSY: 0}
    for _ in range(rounds):
        fill(driver, told, chance.randrange(1, 4))
        if driver.wal.failed is not None:
            break
        sealed = [info for info in driver.wal.segments() if info.sealed]
        if not sealed:  # there was no file to write to
            continue
        first = chance.randrange(len(sealed))
        needed[BUSY] = chance.randrange(needed[BUSY], end_of(driver, BUSY) + 1)
        if chance.random() < 0.3:
            needed[STUCK] = chance.randrange(needed[STUCK], end_of(driver, STUCK) + 1)
        done += carried(driver, told, sealed[first:], needed) is not None
        driver.wal.roll()
    driver.close()
    return done


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("survives", [nothing, everything])
def test_the_power_goes_at_every_call(survives: Survives, seed: int) -> None:
    whole = ForgetfulFiles()
    assert live(whole, Told(), seed) >= 2
    for cut_at in range(1, len(whole.calls) + 1):
        files, told = ForgetfulFiles(), Told()
        files.cut_at = cut_at
        live(files, told, seed)
        check(files.after_power_cut(survives), told)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 250), st.integers(1, 250))
def test_the_power_goes_again_and_again(seed: int, first: int, second: int) -> None:
    chance = random.Random(seed)
    files, told = ForgetfulFiles(), Told()
    for life, cut_at in enumerate((first, second, 10**9)):
        files.cut_at = cut_at
        live(files, told, seed + life, rounds=2)
        likelihood = chance.random()
        files = files.after_power_cut(pieces(chance, likelihood))
    check(files, told)


@pytest.mark.parametrize(
    "point", ["carry.begun", "carry.written", "carry.sealed", "carry.listed"]
)
def test_a_kill_at_each_step_leaves_the_old_ones_or_the_new_one(point: str) -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    kept: list[ForgetfulFiles] = []

    def look(name: str) -> None:
        if name == point:
            kept.append(files.after_kill())

    failpoints.watch(look)
    try:
        assert carry_all(driver, told) is not None
    finally:
        failpoints.watch(None)
    driver.close()
    [killed] = kept
    check(killed, told)
    driver = open_log(killed.after_kill())
    assert len(held(driver.recovery, driver.wal)[1, STUCK]) == 10
    fill(driver, told, 1)
    assert carry_all(driver, told) is not None
    driver.close()
    check(files_of(driver).after_kill(), told)


@pytest.mark.parametrize("point", ["carry.begun", "carry.written", "carry.sealed"])
def test_a_kill_at_a_step_and_a_lost_manifest_are_no_damage(point: str) -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    kept: list[ForgetfulFiles] = []

    def look(name: str) -> None:
        if name == point:
            kept.append(files.after_kill())

    failpoints.watch(look)
    try:
        assert carry_all(driver, told) is not None
    finally:
        failpoints.watch(None)
    driver.close()
    [killed] = kept
    killed.unlink(WAL / "checkpoint")
    for damage in (["the checkpoint is missing; replaying all"], []):
        driver = open_log(killed)
        assert (driver.recovery.damage, driver.recovery.lost) == (damage, [])
        check_found(driver, told)
        driver.close()
        killed = files_of(driver).after_kill()


def test_without_the_manifest_nothing_is_lost_and_no_batch_is_there_twice() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    assert carry_all(driver, told) is not None
    driver.close()
    left = files.after_kill()
    left.unlink(WAL / "checkpoint")
    driver = open_log(left)
    assert driver.recovery.damage == ["the checkpoint is missing; replaying all"]
    there = held(driver.recovery, driver.wal)[1, STUCK]
    assert there == [told.acknowledged[1, STUCK, n] for n in range(10)]
    driver.close()
    check_again(files_of(driver).after_kill(), told)


def test_without_the_manifest_what_was_replaced_and_overwritten_is_gone() -> None:
    """Its file was used again when the power went, and its first sector was not there:
    its footer still names what the carried one holds, and none of it verifies."""
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    result = carry_all(driver, told)
    assert result is not None
    driver.close()
    left = files.after_kill()
    old = left.names[run[0].path]
    old.data[HEADER_BLOCK_BYTES : run[0].bytes] = bytes(
        run[0].bytes - HEADER_BLOCK_BYTES
    )
    old.durable = bytes(old.data)
    left.unlink(WAL / "checkpoint")
    driver = open_log(left)
    there = held(driver.recovery, driver.wal)[1, STUCK]
    assert there == [told.acknowledged[1, STUCK, n] for n in range(10)]
    assert run[0].sequence not in driver.numbers()
    driver.close()
    check_again(files_of(driver).after_kill(), told)


def check_again(files: ForgetfulFiles, told: Told) -> None:
    """A later start finds each batch once, and so does who reads without a broker."""
    driver = Driver(files, segment_bytes=SMALL_SEGMENT)
    check_found(driver, told)
    driver.close()
    store = LocalSegmentStore(files.after_kill(), WAL)
    seen: set[tuple[int, int, int]] = set()
    for info in store.live():
        for key, columns in store.columns(info.sequence).items():
            batches = {(*key, base) for base in columns.base.tolist()}
            assert not seen & batches
            seen |= batches
    assert told.acknowledged.keys() - told.released <= seen


def test_a_copy_that_was_not_finished_hides_nothing_when_the_manifest_is_lost() -> None:
    """The first batches are there twice then, and the others in the old place alone."""

    def story(files: ForgetfulFiles, told: Told) -> int:
        driver = open_log(files)
        fill(driver, told)
        calls = len(files.calls)
        carry_all(driver, told)
        driver.close()
        return calls

    whole = ForgetfulFiles()
    begun = story(whole, Told())
    for cut_at in range(begun + 1, len(whole.calls) + 1):
        files, told = ForgetfulFiles(), Told()
        files.cut_at = cut_at
        story(files, told)
        left = files.after_power_cut(everything)
        left.unlink(WAL / "checkpoint")
        driver = Driver(left, segment_bytes=SMALL_SEGMENT)
        check_found(driver, told)
        driver.close()
        check_again(left.after_kill(), told)


@pytest.mark.parametrize("known", [True, False])
def test_a_reader_that_looks_during_the_change_sees_every_batch(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Also if the manifest that it read knows nothing of the old segments yet."""
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    if known:
        fill(driver, told)
    reader = LocalSegmentStore(files, WAL)
    look = LocalSegmentStore._look_at_all
    results = []

    def late(store: LocalSegmentStore, *read: object) -> object:
        if not results:  # the manifest was read; now all of it changes
            if not end_of(driver, STUCK):
                fill(driver, told)
            results.append(carry_all(driver, told))
            gone = set(results[0].sequences)
            driver.until(lambda: not gone & driver.numbers())
            fill(driver, told, 4)
        return look(store, *read)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalSegmentStore, "_look_at_all", late)
    infos = reader.live()
    assert results[0].sequence in [info.sequence for info in infos]
    found = [
        int(base)
        for info in infos
        for base in reader.columns(info.sequence)[1, STUCK].base
    ]
    assert found == list(range(20))
    driver.close()


def test_a_manifest_that_cannot_be_written_leaves_all_readable() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    failed: list[str] = []

    def look(name: str) -> None:
        if name == "carry.sealed" and not failed:
            failed.append(name)
            files.fail("rename", OSError(28, "No space left on device"))

    failpoints.watch(look)
    try:
        result = carry_all(driver, told)
    finally:
        failpoints.watch(None)
    assert failed
    assert result is not None  # it was tried again
    driver.close()
    check(files.after_power_cut(nothing), told)


def test_a_number_is_given_again_only_when_its_unfinished_file_is_gone() -> None:
    files, told = ForgetfulFiles(), Told()
    driver = open_log(files)
    fill(driver, told)
    kept: list[ForgetfulFiles] = []

    def look(name: str) -> None:
        if name == "carry.sealed":
            kept.append(files.after_kill())

    failpoints.watch(look)
    try:
        first = carry_all(driver, told)
    finally:
        failpoints.watch(None)
    driver.close()
    assert first is not None
    driver = open_log(kept[0])
    checkpoint(driver, told)
    run = [s for s in driver.wal.segments() if s.sequence in first.sequences][2:]
    second = carried(driver, told, run, {STUCK: 0, BUSY: end_of(driver, BUSY)})
    assert second is not None
    assert second.sequence == first.sequence
    driver.close()
    check(kept[0].after_kill(), told)


@contextmanager
def unsynced() -> Iterator[None]:
    """What is carried is not synced."""
    write = carry.write

    def careless(files: ForgetfulFiles, *more: object) -> object:
        class Careless:
            def __getattr__(self, name: str) -> object:
                return getattr(files, name)

            def fdatasync(self, file: int) -> None:
                """Nothing."""

        return write(Careless(), *more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(carrier, "write_carried", careless)
        yield


@contextmanager
def twice_listed() -> Iterator[None]:
    """The manifest lists the new segment beside the old ones."""
    switch = Carrier._switch

    def careless(self: Carrier, *result: object) -> None:
        switch(self, *result)  # type: ignore[arg-type]
        self._segments._replaced.clear()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Carrier, "_switch", careless)
        yield


@contextmanager
def released_too_early() -> Iterator[None]:
    """The old segments go before a manifest lists the new one."""
    switch = Carrier._switch

    def careless(self: Carrier, *result: object) -> None:
        switch(self, *result)  # type: ignore[arg-type]
        for source in self._sources:
            self._files.unlink(source.slot.path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Carrier, "_switch", careless)
        yield


@pytest.mark.parametrize("defect", [unsynced, twice_listed, released_too_early])
def test_the_harness_notices(
    defect: Callable[[], AbstractContextManager[None]],
) -> None:
    def story() -> None:
        whole = ForgetfulFiles()
        live(whole, Told(), 1)
        for cut_at in range(30, len(whole.calls) + 1):
            files, told = ForgetfulFiles(), Told()
            files.cut_at = cut_at
            live(files, told, 1)
            check(files.after_power_cut(nothing), told)

    with defect(), pytest.raises((AssertionError, FileNotFoundError)):
        story()
