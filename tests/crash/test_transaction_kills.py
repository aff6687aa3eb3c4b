"""kill -9 of the broker under transactions: at each named point, with a compactor.

Who reads what is committed finds every transaction whose commit was answered, whole,
and nothing of another; so does who reads the table.
"""

import random

import pytest

from tests.crash.house import HITS, House
from tests.support.patience import STUCK_S
from tests.support.transactions import TransactionalLoad, under_load, values_of

POINTS = (
    "catalog.before_commit", "catalog.after_commit",
    "wal.before_write", "wal.after_write", "wal.after_sync", "wal.before_done",
    "wal.seal", "wal.checkpoint",
)  # fmt: skip
RARE = ("wal.seal", "wal.checkpoint")

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("kills of a broker", 6)]


def test_a_kill_at_a_named_point_breaks_no_transaction(build):
    house: House = build().start()
    broker, chance = house.broker, random.Random(11)
    loads = [
        TransactionalLoad(broker.bootstrap, "t", name, house.partitions)
        for name in ("a", "b")
    ]
    house.compactor.start()
    with under_load(*loads):
        for point in POINTS * HITS:
            broker.end()
            count = chance.randint(1, 2 if point in RARE else 12)
            broker.start(failpoints=f"{point}={count}", wait=False)
            assert broker.died(STUCK_S), f"{point} was not passed"
        broker.start()
    wanted = sorted(value for load in loads for value in load.wanted())
    assert wanted
    assert (
        values_of(broker.bootstrap, "t", "read_committed", house.partitions) == wanted
    )
    house.flush()
    assert sorted(house.in_table().values()) == wanted
    house.check()
