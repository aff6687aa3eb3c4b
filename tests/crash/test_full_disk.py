"""The disk is full: produces are refused and nothing else happens.

What was acknowledged is read all the while; once there is space the broker takes
records again, without a restart if only the log had asked for space.
"""

from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from tests.crash.house import SMALL
from tests.crash.workload import (
    create_topic,
    judge,
    read_everything,
    running,
    tell,
    wait_for,
)
from tests.support.power import SmallDisk, why_no_disks

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.fixture
def disk(tmp_path):
    why = why_no_disks(tmp_path)
    if why:
        pytest.skip(why)
    disk = SmallDisk(tmp_path / "disk", size_mb=64)
    yield disk
    disk.unmount()


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


def test_a_full_disk_refuses_and_loses_nothing(disk, house):
    bootstrap = house.broker.bootstrap
    load = house.load("p", value_bytes=2000, pause_s=0.01, timeout_s=2)
    with running(load):
        wait_for(lambda: len(load.acknowledged) > 200)
        ballast = disk.root / "ballast"
        fill(ballast)
        wait_for(lambda: len(load.refused) > 100)
    assert set(load.refused) <= {"_MSG_TIMED_OUT", "KAFKA_STORAGE_ERROR"}
    assert house.broker.alive
    judge([load], read_everything(bootstrap, "t", house.partitions))
    with pytest.raises(KafkaException):
        create_topic(bootstrap, "another", 3)

    ballast.unlink()
    later = house.load("later", value_bytes=2000, pause_s=0.01)
    with running(later):
        wait_for(lambda: len(later.acknowledged) > 200)
    create_topic(bootstrap, "another", 3)
    judge([load, later], read_everything(bootstrap, "t", house.partitions))
    house.broker.kill()
    house.broker.start()
    judge([load, later], read_everything(bootstrap, "t", house.partitions))
    assert not later.refused
    house.check()
    tell("full disk", 1, [load, later])
