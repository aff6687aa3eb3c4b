"""The power goes, for real: ext4 on a loop device that is shut down under load.

What a process wrote and did not sync is gone then, names of files included, and the
kernel's own appender recovery decides what is there. What was acknowledged is.
"""

import os
import random
import time
from contextlib import suppress

import pytest

from broker.storage.files import PosixFiles
from broker.storage.segment import StaleSegment
from broker.storage.store import LocalSegmentStore
from tests.crash.groups import Committer
from tests.crash.house import House
from tests.crash.workload import (
    Load,
    Lost,
    judge,
    read_everything,
    running,
    tell,
    wait_for,
)
from tests.support.power import LoopDisk, why_no_disks

CUTS = int(os.environ.get("LAKELOG_CRASH_CUTS", "3"))

pytestmark = pytest.mark.crash


@pytest.fixture
def disk(tmp_path):
    why = why_no_disks(tmp_path)
    if why:
        pytest.skip(why)
    disk = LoopDisk(tmp_path)
    disk.mount()
    yield disk
    disk.unmount()


@pytest.fixture
def house(disk, build):
    """Builds on the disk, with logs elsewhere, and is gone before the disk is."""
    houses = []

    def make(**how):
        houses.append(build(disk.root / "data", logs=disk.root.parent, **how))
        return houses[-1]

    yield make
    for one in houses:
        one.end()


def live(
    disk: LoopDisk,
    house: House,
    cuts: int,
    pauses: tuple[float, float],
    compacting: bool = True,
    commits_min: int = 0,
    after_release: bool = False,
    loses: bool = False,
) -> None:
    """Producers, groups and a compactor, through power cuts; then the judge.

    With ``after_release`` the table is all that has the first records. Where the
    product ``loses`` them, the story ends when the broker tells it: else a reader waits
    for as long as there is patience.
    """
    house.start()
    if compacting:
        house.compactor.start(wait=False)
    broker, chance = house.broker, random.Random(11)
    loads = [
        house.load("exact", pause_s=0.01),
        house.load("plain", idempotent=False, pause_s=0.01),
    ]
    watcher = house.watcher()
    committer = Committer(broker.bootstrap, "t", house.partitions)
    with running(*loads, watcher, committer):
        for _ in range(cuts):
            before = [len(load.acknowledged) for load in loads]
            wait_for(lambda: grown(loads, before))  # noqa: B023
            wait_for(lambda: commits(house) >= commits_min)
            oldest = oldest_segment(house)
            wait_for(lambda: not after_release or oldest_segment(house) > oldest)  # noqa: B023
            time.sleep(chance.uniform(*pauses))
            disk.cut_power()
            house.end()
            disk.unmount()
            disk.mount()
            broker.start()
            if compacting:
                house.compactor.start(wait=False)
    lost = house.lost if loses else list
    found = read_everything(broker.bootstrap, "t", house.partitions, lost=lost)
    judge(loads, found, watcher)
    assert not [load.refused for load in loads if load.refused]
    committer.judge(broker.bootstrap)
    house.flush()
    assert house.in_table() == found
    house.check()
    tell("power", cuts, loads)


def commits(house: House) -> int:
    """How many versions the table has."""
    log = house.data_dir / "tables" / "t" / "_delta_log"
    return sum(1 for _ in log.glob("*.json"))


def oldest_segment(house: House) -> int:
    """The first segment that the log still has."""
    while True:
        with suppress(StaleSegment):
            store = LocalSegmentStore(PosixFiles(), house.data_dir / "wal")
            return min(info.sequence for info in store.live())


def grown(loads: list[Load], before: list[int]) -> bool:
    """Whether each has a hundred acknowledged records more."""
    return all(
        len(load.acknowledged) >= number + 100
        for load, number in zip(loads, before, strict=True)
    )


@pytest.mark.shared_out("failing disks", 6)
def test_power_cuts_lose_nothing(disk, house):
    live(disk, house(), CUTS, (0.5, 3.0))


@pytest.mark.shared_out("planted defects", 6)
def test_a_power_cut_notices_that_the_log_is_not_synced(disk, house):
    altered = house(altered="never_synced")
    with pytest.raises(Lost):
        live(disk, altered, 1, (0.2, 0.5), compacting=False, loses=True)


@pytest.mark.shared_out("planted defects", 6)
def test_a_power_cut_notices_that_tables_are_not_synced(disk, house):
    """Their records were let go from the log, and are nowhere; or what is left of the
    table's log is torn, which is told."""
    with pytest.raises((Lost, AssertionError)) as noticed:
        live(
            disk,
            house(altered="tables_never_synced"),
            1,
            (0.0, 0.1),
            commits_min=3,
            after_release=True,
            loses=True,
        )
    assert noticed.type is Lost or "is torn" in str(noticed.value)
