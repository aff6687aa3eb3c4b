"""kill -9 of the broker: at each named point, and at random times, under load.

The same clients live through it all: an idempotent producer, a plain one, a consumer
that reads along, and groups that commit; a compactor writes tables, so that segments
are let go meanwhile. Afterwards nothing that was acknowledged or shown is missing,
nothing of the idempotent producer stands twice, groups are where they were, and
``lakelog check`` is clean.
"""

import random
import time

import pytest

from tests.crash.groups import Committer
from tests.crash.house import HITS, KILLS, House
from tests.crash.workload import judge, read_everything, running, tell
from tests.support.patience import STUCK_S

POINTS = {
    "log": ("wal.before_write", "wal.after_write", "wal.after_sync", "wal.before_done"),
    "segments": ("wal.seal", "wal.checkpoint"),
    "catalog": ("catalog.before_commit", "catalog.after_commit"),
    "release": (
        "release.before_sync",
        "release.after_sync",
        "release.noted",
        "release.after",
    ),
}
OFTEN = "log"  # those are passed hundreds of times a second

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("kills of a broker", 6)]


class Life:
    """A house under load."""

    def __init__(self, house: House, pause_s: float = 0.01) -> None:
        self.house, self.broker = house.start(), house.broker
        self.loads = [
            house.load("exact", idempotent=True, pause_s=pause_s),
            house.load("plain", idempotent=False, pause_s=pause_s),
        ]
        self.watcher = house.watcher()
        self.committer = Committer(self.broker.bootstrap, "t", house.partitions)
        self.clients = (*self.loads, self.watcher, self.committer)

    def judge(self, test: str, kills: int) -> None:
        for load in self.loads:
            assert not load.refused, load.refused[:3]
        found = read_everything(self.broker.bootstrap, "t", self.house.partitions)
        judge(self.loads, found, self.watcher)
        self.committer.judge(self.broker.bootstrap)
        self.house.check()
        tell(test, kills, self.loads)


@pytest.mark.parametrize("kind", POINTS)
def test_a_kill_at_a_named_point_loses_nothing(build, kind):
    life = Life(build())
    chance = random.Random(7)
    broker = life.broker
    life.house.compactor.start()
    with running(*life.clients):
        for hit in range(HITS * len(POINTS[kind])):
            point = POINTS[kind][hit % len(POINTS[kind])]
            broker.end()
            count = chance.randint(1, 60 if kind == OFTEN else 3)
            broker.start(failpoints=f"{point}={count}", wait=False)
            assert broker.died(STUCK_S), f"{point} was not passed"
        broker.start()
    life.judge(kind, HITS * len(POINTS[kind]))


def test_kills_at_random_times_lose_nothing(build):
    life = Life(build(), pause_s=0.003)
    chance = random.Random(20)
    with running(*life.clients):
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 1.0))
            life.broker.kill()
            life.broker.start()
    life.judge("random", KILLS)


def test_a_kill_during_recovery_loses_nothing(build):
    life = Life(build())
    chance = random.Random(3)
    with running(*life.clients):
        time.sleep(0.5)
        for _ in range(KILLS):
            life.broker.kill()
            life.broker.start(wait=False)
            time.sleep(chance.uniform(0.3, 1.2))
        life.broker.kill()
        life.broker.start()
    life.judge("recovery", KILLS + 1)
