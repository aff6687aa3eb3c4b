"""Power cuts and kills at every call and at every byte: what was promised is there.

A small life of a log is run until the power goes at call n, for every n. What the disk
may then hold is made up (nothing of what was not synced, all of it, or any part), the
log is opened on it, and four things must hold:

* every acknowledged batch is there, as it was, and in order per partition;
* every batch that is there is one that was appended;
* what lies behind the checkpoint, together with its payload, covers all of them;
* nothing is called damage: a power cut is not.

The last tests prove the harness: with a sync, a checksum, the generation or the
manifest taken out, it must notice.
"""

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.protocol.errors import KafkaError
from broker.storage import recycler, scan
from broker.storage.active_segment import ActiveSegment
from broker.storage.entry import read_entry
from broker.storage.files import Buffer
from tests.broker.storage.driver import Driver
from tests.broker.storage.told import SMALL_SEGMENT, Told, check, go_on, noted
from tests.support.files import (
    ForgetfulFiles,
    PowerCut,
    Survives,
    everything,
    nothing,
    pieces,
)
from tests.support.patience import IDLE_S

SIZES = (61, 90, 400, 1500)


def live(
    files: ForgetfulFiles,
    told: Told,
    seed: int,
    rounds: int = 6,
    sizes: Sequence[int] = SIZES,
) -> None:
    """Open, append, checkpoint, seal and release, until the end or the power cut."""
    chance = random.Random(seed)
    try:
        driver = Driver(files, segment_bytes=SMALL_SEGMENT)
    except PowerCut:
        return
    go_on(driver)
    for _ in range(rounds):
        group = [
            told.send(driver, chance.choice(sizes), chance.randrange(3))
            for _ in range(chance.randrange(1, 8))
        ]
        driver.finish([one for one in group if one not in driver.finished])
        told.listen(driver)
        if chance.random() < 0.3:
            driver.wal.roll()
        if chance.random() < 0.4:
            driver.wal.checkpoint(noted(told))
        if chance.random() < 0.3:
            release(driver, told)
    driver.close()


def release(driver: Driver, told: Told) -> None:
    for info in driver.wal.segments():
        if info.sealed:
            for (topic, partition), (first, end) in info.ranges.items():
                told.released |= {(topic, partition, o) for o in range(first, end)}
            driver.wal.release(info.sequence)


def cut_everywhere(
    survives: Callable[[int], Survives], seed: int = 1, step: int = 1
) -> int:
    """A life for each call at which the power may go; returns how many."""
    whole = ForgetfulFiles()
    live(whole, Told(), seed)
    total = len(whole.calls)
    for cut_at in range(1, total + 1, step):
        files, told = ForgetfulFiles(), Told()
        files.cut_at = cut_at
        live(files, told, seed)
        check(files.after_power_cut(survives(cut_at)), told)
    return total


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("survives", [nothing, everything])
def test_the_power_goes_at_every_call(survives: Survives, seed: int) -> None:
    assert cut_everywhere(lambda _: survives, seed) > 60


@pytest.mark.parametrize("likelihood", [0.1, 0.5, 0.9])
def test_any_part_of_what_was_not_synced_survives(likelihood: float) -> None:
    def survives(cut_at: int) -> Survives:
        return pieces(random.Random(cut_at), likelihood)

    for seed in (4, 5):
        cut_everywhere(survives, seed)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 300))
def test_the_power_goes_again_and_again(seed: int, first: int, second: int) -> None:
    """What one crash left must not confuse the recovery from the next."""
    chance = random.Random(seed)
    files, told = ForgetfulFiles(), Told()
    for life, cut_at in enumerate((first, second, 10**9)):
        files.cut_at = cut_at
        live(files, told, seed + life)
        files = files.after_power_cut(pieces(chance, chance.random()))
    check(files, told)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_a_kill_keeps_what_was_written(seed: int, cut_at: int) -> None:
    files, told = ForgetfulFiles(), Told()
    files.cut_at = cut_at
    live(files, told, seed)
    check(files.after_kill(), told)


def torn_life(told: Told) -> tuple[ForgetfulFiles, int]:
    """Slots that were used before, whose last group was written and not synced."""
    files = ForgetfulFiles()
    live(files, told, seed=7, rounds=12)
    driver = Driver(files, segment_bytes=SMALL_SEGMENT)
    go_on(driver)
    first = told.send(driver, 300, 0)
    driver.finish([first])
    told.listen(driver)
    driver.until(lambda: not driver.wal._pool.wants())
    files.fail("fdatasync", PowerCut("it is killed before it syncs"))
    gate = threading.Event()
    driver.wal._writer.call(lambda: gate.wait(IDLE_S) and None)
    group = [told.send(driver, size, size % 3) for size in (61, 200, 90)]
    gate.set()
    driver.finish(group)
    driver.close()
    return files, sum(48 + len(one.batch) for one in group)


@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"\xa1"])
def test_the_last_write_is_torn_at_every_byte(filling: bytes) -> None:
    """As a kill would leave it, then cut off at each byte and filled with something."""
    told = Told()
    files, length = torn_life(told)
    whole = files.after_kill()
    path, start = last_write(whole, length)
    for keep in range(length + 1):
        copy = whole.after_kill()
        node = copy.names[path]
        node.data[start + keep : start + length] = filling * (length - keep)
        node.durable = bytes(node.data)
        check(copy, told)


def last_write(files: ForgetfulFiles, length: int) -> tuple[Path, int]:
    driver = Driver(files.after_kill(), segment_bytes=SMALL_SEGMENT)
    info = driver.wal.segments()[-1]
    driver.close()
    return info.path, info.bytes - length


# The harness itself.


def expect_noticed(sweep: Callable[[], object]) -> None:
    with pytest.raises((AssertionError, KafkaError, FileNotFoundError)):
        sweep()


def sweep_all() -> None:
    for seed in (1, 2, 3):
        cut_everywhere(lambda _: nothing, seed)
        cut_everywhere(lambda n: pieces(random.Random(n), 0.5), seed)


def test_it_notices_when_nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForgetfulFiles, "fdatasync", lambda *_: None)
    expect_noticed(sweep_all)


def test_it_notices_when_names_are_not_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ForgetfulFiles, "fsync_dir", lambda *_: None)
    expect_noticed(sweep_all)


def test_it_notices_when_the_acknowledgement_is_before_the_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = ActiveSegment.write

    def hasty(
        self: ActiveSegment, parts: list[Buffer], end: int, *, sync: bool
    ) -> None:
        write(self, parts, end, sync=not sync)

    monkeypatch.setattr(ActiveSegment, "write", hasty)
    expect_noticed(sweep_all)


def without_checksums(*where: Any, **more: Any) -> Any:
    """`read_entry`, believing every batch whose header looks right."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.storage.entry.crc32c", _Agrees)
        return read_entry(*where, **more)


class _Agrees:
    """A checksum equal to whatever it is compared with."""

    def __init__(self, *_: object) -> None:
        pass

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def test_it_notices_when_checksums_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "read_entry", without_checksums)

    def sweep() -> None:
        for filling in (b"\0", b"\xff"):
            test_the_last_write_is_torn_at_every_byte(filling)

    expect_noticed(sweep)


def test_it_notices_when_the_generation_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def timeless(
        view: Any, position: int, generation: int, *more: Any, **by: Any
    ) -> Any:
        """Take an entry of any generation for one of this."""
        found = int.from_bytes(view[position + 4 : position + 12], "little")
        return read_entry(view, position, found, *more, **by)

    monkeypatch.setattr(scan, "read_entry", timeless)

    def sweep() -> None:
        for seed in range(20, 40):
            files, told = ForgetfulFiles(), Told()
            files.cut_at = 400
            live(files, told, seed, rounds=60, sizes=(300,))
            check(files.after_kill(), told)

    expect_noticed(sweep)


def test_it_notices_when_a_slot_is_free_before_the_manifest_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(*_: object) -> None:
        pass

    monkeypatch.setattr(recycler, "write_manifest", hasty)

    def sweep() -> None:
        for seed in range(30, 50):
            files, told = ForgetfulFiles(), Told()
            live(files, told, seed, rounds=20)
            check(files.after_power_cut(nothing), told)

    expect_noticed(sweep)
