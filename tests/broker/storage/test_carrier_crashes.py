"""Segments are carried into one: whatever stops it, each batch is there once."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker import failpoints
from broker.storage import carrier, carry
from broker.storage.carrier import Carrier
from broker.storage.layout import HEADER_BLOCK_BYTES
from broker.storage.manifest import read_manifest, write_manifest
from broker.storage.objects import LocalObjects
from broker.storage.segment import slot_name
from broker.storage.store import LocalSegmentStore
from tests.broker.storage.carrying import (
    BUSY,
    STUCK,
    carried,
    carry_all,
    checkpoint,
    end_of,
    files_of,
    fill,
    open_log,
)
from tests.broker.storage.driver import WAL, Driver, held
from tests.broker.storage.told import (
    SMALL_SEGMENT,
    Told,
    check,
    check_found,
)
from tests.support.files import (
    ForgetfulFiles,
    PowerCut,
    Survives,
    everything,
    nothing,
    pieces,
)


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


def killed_at(point: str, told: Told) -> ForgetfulFiles:
    """What a kill at a step of a carry leaves of a log."""
    files = ForgetfulFiles()
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
    return killed


@pytest.mark.parametrize(
    "point", ["carry.begun", "carry.written", "carry.sealed", "carry.listed"]
)
def test_a_kill_at_each_step_leaves_the_old_ones_or_the_new_one(point: str) -> None:
    told = Told()
    killed = killed_at(point, told)
    check(killed, told)
    driver = open_log(killed.after_kill())
    assert len(held(driver.recovery, driver.wal)[1, STUCK]) == 10
    fill(driver, told, 1)
    assert carry_all(driver, told) is not None
    driver.close()
    check(files_of(driver).after_kill(), told)


@pytest.mark.parametrize("point", ["carry.begun", "carry.written", "carry.sealed"])
def test_a_kill_at_a_step_and_a_lost_manifest_are_no_damage(point: str) -> None:
    told = Told()
    killed = killed_at(point, told)
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


def both_listed(files: ForgetfulFiles, told: Told) -> ForgetfulFiles:
    """As the second version left it, whose starts without a manifest listed a carried
    segment and those that it had replaced."""
    driver = open_log(files)
    fill(driver, told)
    run = [info for info in driver.wal.segments() if info.sealed]
    before = {info.sequence: bytes(files.names[info.path].data) for info in run[1:]}
    assert carry_all(driver, told) is not None
    driver.until(lambda: not driver.wal._segments.released())
    driver.close()
    left = files.after_kill()
    for sequence, data in before.items():
        file = left.create(WAL / slot_name(900 + sequence))
        left.pwritev(file, [data], 0)
        left.fdatasync(file)
    left.fsync_dir(WAL)
    objects = LocalObjects(left, WAL)
    manifest = read_manifest(objects)
    assert manifest is not None
    live = manifest.live | before.keys()
    write_manifest(objects, replace(manifest, live=live))
    return left


def test_a_carried_segment_that_is_listed_beside_what_it_replaced_is_kept_alone() -> (
    None
):
    told = Told()
    left = both_listed(ForgetfulFiles(), told)
    for damage in (["what was carried was listed twice: one is kept"], []):
        driver = open_log(left)
        assert (driver.recovery.damage, driver.recovery.lost) == (damage, [])
        check_found(driver, told)
        driver.close()
        left = files_of(driver).after_power_cut(nothing)
        store = LocalSegmentStore(left, WAL)
        seen = [store.columns(info.sequence) for info in store.live()]
        bases = [one[1, STUCK].base.tolist() for one in seen if (1, STUCK) in one]
        assert list(chain(*bases)) == list(range(10))


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
