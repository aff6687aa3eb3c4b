"""The disk is full, or fails: produces are refused and nothing else happens.

What was acknowledged is read all the while. Once there is space the broker takes
records again, without a restart, since only room for a new segment was missing. After a
sync that failed it takes none until it is started anew, since nobody knows what the
disk has then.
"""

from contextlib import suppress

import pytest

from tests.crash.house import SMALL
from tests.crash.workload import (
    create_topic,
    judge,
    read_everything,
    running,
    tell,
    wait_for,
)
from tests.support.power import small_disk

pytestmark = [pytest.mark.crash, pytest.mark.shared_out("failing disks", 6)]

disk = pytest.fixture(small_disk)


def refused_after_some(load):
    """Wait until a producer was answered, and a hundred of its records are refused.

    A broker that has just started may need longer than records are kept here.
    """
    wait_for(lambda: load.acknowledged)
    before = len(load.refused)
    wait_for(lambda: len(load.refused) > before + 100)


@pytest.fixture
def house(disk, build):
    house = build(disk.root / "data", logs=disk.root.parent, settings=SMALL).start()
    yield house
    house.end()


def fill(ballast):
    """Take all the space there is."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


# Plain producers, where messages may time out: librdkafka sends those that were in
# flight beside one that timed out again, with a new epoch, and they stand twice.


def test_a_full_disk_refuses_and_loses_nothing(disk, house):
    bootstrap = house.broker.bootstrap
    load = house.load(
        "p", value_bytes=2000, pause_s=0.01, timeout_s=2, idempotent=False
    )
    with running(load):
        wait_for(lambda: len(load.acknowledged) > 200)
        ballast = disk.root / "ballast"
        fill(ballast)
        wait_for(lambda: len(load.refused) > 100)
    wait_for(lambda: "nothing can be written" in str(house.problems()))
    assert set(load.refused) <= {"_MSG_TIMED_OUT", "KAFKA_STORAGE_ERROR"}
    assert house.broker.alive
    judge([load], read_everything(bootstrap, "t", house.partitions))
    create_topic(bootstrap, "another", 3)  # the reserve is given up for it

    ballast.unlink()
    wait_for(lambda: house.problems() == [])  # before anybody produces
    later = house.load("later", value_bytes=2000, pause_s=0.01)
    with running(later):
        wait_for(lambda: len(later.acknowledged) > 200)
    create_topic(bootstrap, "third", 3)
    judge([load, later], read_everything(bootstrap, "t", house.partitions))
    house.broker.kill()
    house.broker.start()
    judge([load, later], read_everything(bootstrap, "t", house.partitions))
    assert not later.refused
    house.check()
    tell("full disk", 1, [load, later])


def test_a_disk_that_the_log_has_filled_heals_by_itself(disk, house):
    """Nobody writes tables, until there is only the room that is kept for that."""
    bootstrap = house.broker.bootstrap
    first = house.load("first")  # what comes before an answer would fill the disk
    with running(first):
        wait_for(lambda: first.acknowledged)
    load = house.load("p", value_bytes=20_000, timeout_s=2, idempotent=False)
    with running(load):
        refused_after_some(load)
    wait_for(lambda: "nothing can be written" in str(house.problems()))
    judge([first, load], read_everything(bootstrap, "t", house.partitions))
    create_topic(bootstrap, "another", 3)
    house.broker.kill()
    house.broker.start()  # on a disk that is nearly full

    later = house.load("later", value_bytes=2000, pause_s=0.01)
    with running(later):
        house.compactor.start(wait=False)
        wait_for(lambda: len(later.acknowledged) > 200)
    assert not later.refused
    wait_for(lambda: house.problems() == [])
    judge([first, load, later], read_everything(bootstrap, "t", house.partitions))
    house.check()
    tell("filled disk", 1, [first, load, later])


def test_after_a_failed_sync_nothing_is_taken_until_a_restart(build):
    house = build(altered="sync_fails").start()
    bootstrap = house.broker.bootstrap
    # What is refused is not sent again: no record may be written without an answer.
    load = house.load("p", pause_s=0.01, retries=0, idempotent=False)
    with running(load):
        refused_after_some(load)
        acknowledged = len(load.acknowledged)
    assert len(load.acknowledged) == acknowledged
    assert "the log takes no more writes" in house.broker.tail()
    found = read_everything(bootstrap, "t", house.partitions)
    assert found.items() == load.acknowledged.items()

    house.broker.kill()
    house.broker.start()
    # The page cache still has what was refused; nobody ever sees it.
    assert read_everything(bootstrap, "t", house.partitions) == found
    later = house.load("later", pause_s=0.01)
    with running(later):
        wait_for(lambda: len(later.acknowledged) > 200)
        house.broker.kill()  # this one's sync would fail, too
        house.broker.start()
    judge([load, later], read_everything(bootstrap, "t", house.partitions))
    house.check()
    tell("failed sync", 2, [load, later])
