"""The crash suite's own proof: with a promise taken out of the product, it notices.

Each story below is one that passes with the real product (the other modules run the
same ones); here a part of it is taken out, see `tests.crash.altered`.
"""

import time

import pytest

from tests.crash.house import sleeps_through_the_work_of_another
from tests.crash.workload import (
    Doubled,
    Lost,
    judge,
    read_everything,
    running,
)
from tests.support.patience import STUCK_S

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("planted defects", 6)]


def lives_through_kills(house, kills=3):
    """A plain producer, and kills of the broker; the judge at the end."""
    house.start()
    load = house.load("plain", idempotent=False, pause_s=0.003)
    with running(load):
        for _ in range(kills):
            time.sleep(0.7)
            house.broker.kill()
            house.broker.start()
    house.broker.kill()
    house.broker.start()
    broker = house.broker.bootstrap
    judge([load], read_everything(broker, "t", house.partitions, lost=house.lost))


def lives_with_two_compactors(house):
    house.start()
    load = house.load("exact", pause_s=0.02)
    with running(load):
        sleeps_through_the_work_of_another(house)
        watch_the_table(house)


def lives_through_a_kill_after_the_commit(house):
    house.start()
    load = house.load("exact", pause_s=0.02)
    with running(load):
        house.compactor.start(failpoints="compact.after_commit=2", wait=False)
        assert house.compactor.died(STUCK_S)
        house.compactor.start()
        watch_the_table(house)


def watch_the_table(house, seconds=STUCK_S):
    """Raises Doubled as soon as it is so; time enough for a slow machine to do it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        house.in_table()
        time.sleep(0.2)


def test_the_kills_notice_an_acknowledgement_before_the_write(build):
    with pytest.raises(Lost):
        lives_through_kills(build(altered="acknowledged_before_written"))


def test_two_compactors_notice_that_starts_are_not_checked(build):
    with pytest.raises(Doubled):
        lives_with_two_compactors(build(altered="starts_unchecked,stops_at_points"))


def test_a_kill_after_the_commit_notices_that_no_end_is_told(build):
    with pytest.raises(Doubled):
        lives_through_a_kill_after_the_commit(build(altered="ends_untold"))
