"""The log's checkpoint is lost, and a table is not there at that start.

A broker is killed while it releases segments. It starts without its checkpoint, and
without the table that alone has what was released: moved away, without its log, or with
a last entry that is torn. What is written then gets offsets that nobody had, what is
missing is told, and when the table is back all of both is there.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.location import table_path
from tests.crash.house import House
from tests.crash.workload import Load, judge, read_everything, running, tell, wait_for
from tests.support.patience import STUCK_S, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("lost tables", 6)]


def moved(table: Path) -> Callable[[], None]:
    away = table.with_name("elsewhere")
    os.rename(table, away)
    return lambda: os.rename(away, table)


def without_its_log(table: Path) -> Callable[[], None]:
    log, away = table / "_delta_log", table / "_moved"
    os.rename(log, away)
    return lambda: os.rename(away, log)


def torn(table: Path) -> Callable[[], None]:
    """As a power cut may leave the last entry."""
    last = max((table / "_delta_log").glob("*.json"))
    kept = table.with_name("kept.json")
    shutil.copy(last, kept)
    os.truncate(last, 100)
    return lambda: os.replace(kept, last)


def killed_under_load(house: House, load: Load, point: str) -> None:
    wait_for(lambda: len(load.acknowledged) >= 500)
    house.broker.end()
    house.broker.start(failpoints=f"{point}=1", wait=False)
    assert house.broker.died(STUCK_S), f"{point} was not passed"


def killed_at_rest(house: House, load: Load) -> None:
    """All is in the table alone."""
    wait_for(lambda: len(load.acknowledged) >= 2_000)
    load.finish()
    house.flush()
    flushed_s = time.time()  # what the status said before that is of an empty log
    wait_until(lambda: house.status_s() > flushed_s)
    wait_until(lambda: house.status()["wal"]["segments"] == 0)
    house.broker.kill()


@pytest.mark.parametrize("point", ["release.noted", "release.after", "at rest"])
@pytest.mark.parametrize("lose", [moved, without_its_log, torn])
def test_no_offset_is_given_again_and_nothing_is_hidden(build, lose, point):
    house = build().start()
    house.compactor.start()
    before = house.load("before", idempotent=False, pause_s=0.002)
    with running(before):
        if point == "at rest":
            killed_at_rest(house, before)
        else:
            killed_under_load(house, before, point)
        house.compactor.end()
        os.unlink(house.data_dir / "wal" / "checkpoint")
        put_back = lose(Path(table_path(str(house.data_dir / "tables"), "t")))
        house.broker.start()
        after = house.load("after", idempotent=False, pause_s=0.002)
        with running(after):
            wait_for(lambda: len(after.acknowledged) >= 500)
    assert not after.refused, after.refused[:3]
    assert before.acknowledged.keys().isdisjoint(after.acknowledged)
    wait_until(lambda: house.lost() or point == "release.noted")
    put_back()
    wait_until(lambda: not house.lost())
    found = read_everything(house.broker.bootstrap, "t", house.partitions)
    judge([before, after], found)
    house.check()
    tell(f"lost table, {point}", 1, [before, after])
