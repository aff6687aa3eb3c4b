"""Segments are carried into one: what fails or stops changes nothing."""

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from broker import failpoints
from broker.storage import carrier
from broker.storage.carrier import Carrier
from broker.storage.carry import Carried, Kept
from broker.storage.entry import sequence_of
from broker.storage.manifest import Manifest, read_manifest
from broker.storage.objects import LocalObjects
from broker.storage.segment import SegmentInfo
from broker.storage.store import LocalSegmentStore
from tests.broker.storage.carrying import (
    BUSY,
    SIZES,
    STUCK,
    all_sealed,
    carried,
    carry_all,
    end_of,
    fill,
    open_log,
)
from tests.broker.storage.driver import WAL, Driver
from tests.broker.storage.told import (
    Told,
    check,
    noted,
)
from tests.support.files import (
    ForgetfulFiles,
    nothing,
)


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
    replayed = {sequence_of(one.location) for one in driver.recovery.replay}
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
