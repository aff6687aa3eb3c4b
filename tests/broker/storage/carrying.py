"""A log with a stuck topic and a busy one, and segments of theirs that are carried."""

from collections.abc import Callable

from broker.storage.carry import Carried
from broker.storage.segment import SegmentInfo
from broker.storage.wal import Wal
from tests.broker.storage.driver import Driver
from tests.broker.storage.told import SMALL_SEGMENT, Told, go_on, noted
from tests.support.files import ForgetfulFiles

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


def files_of(driver: Driver) -> ForgetfulFiles:
    assert isinstance(driver.files, ForgetfulFiles)
    return driver.files
