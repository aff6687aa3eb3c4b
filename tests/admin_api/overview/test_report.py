"""The report of all parts, out of their status files."""

import asyncio
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from admin_api.kafka import Kafka
from admin_api.lake import Lake
from admin_api.overview import report as module
from admin_api.overview.report import disk_of, report, tables_disk_of
from admin_api.overview.schemas import Status
from admin_api.status import StatusFiles
from broker.status.file import encode, path_of
from broker.status.schema import BrokerStatus, CompactorStatus, WalState
from tests.support.ports import nobody

MEMORY = Path("/dev/shm")
ANOTHER_DISK = MEMORY if MEMORY.is_dir() else None


def say(data_dir, status):
    """As a part that is there for as long as the test takes."""
    path = path_of(data_dir, type(status))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode(status))
    os.utime(path, (time.time() + 3600,) * 2)


def reported(data_dir):
    with nobody() as address:
        kafka = Kafka(address, 0.2)
        return asyncio.run(report(kafka, StatusFiles(data_dir), Lake(data_dir)))


def test_without_any_part_all_is_down_and_null(tmp_path):
    found = reported(tmp_path)
    assert found.status == Status.DOWN
    assert len(found.reasons) == 2
    assert (found.broker.answers, found.broker.pid, found.compactor) == (
        False,
        None,
        None,
    )
    assert 0 < found.disk.free_bytes <= found.disk.total_bytes


def test_what_the_parts_say_is_in_it(tmp_path):
    say(tmp_path, BrokerStatus(pid=7, connections_open=3, wal=WalState(2, 99)))
    counters = {"log_bytes_total": 50, "file_bytes_total": 10}
    say(tmp_path, CompactorStatus(state="running", stuck=1, counters=counters))
    found = reported(tmp_path)
    assert (found.broker.pid, found.broker.connections) == (7, 3)
    assert (found.broker.wal_segments, found.broker.wal_bytes) == (2, 99)
    assert (found.compactor.log_bytes_total, found.compactor.file_bytes_total) == (
        50,
        10,
    )
    assert (found.compactor.state, found.compactor.stuck) == ("running", 1)


@pytest.mark.parametrize(
    ("reasons", "warnings", "status"),
    [
        ([], [], Status.HEALTHY),
        ([], ["w"], Status.DEGRADED),
        (["r"], [], Status.DOWN),
        (["r"], ["w"], Status.DOWN),
    ],
)
def test_reasons_are_worse_than_warnings(reasons, warnings, status):
    assert module._status(reasons, warnings) == status


def test_a_disk_that_is_not_there(tmp_path):
    assert disk_of(tmp_path / "nowhere") is None


def test_the_disk_of_tables_that_lie_elsewhere_is_measured_too(tmp_path):
    with tempfile.TemporaryDirectory(dir=ANOTHER_DISK) as away:
        (tmp_path / "tables").symlink_to(away)
        found = reported(tmp_path)
        assert found.tables_disk.warehouse == os.path.realpath(away)
        there = shutil.disk_usage(away)
        assert found.tables_disk.total_bytes == there.total
        assert found.disk.total_bytes == shutil.disk_usage(tmp_path).total
    assert tables_disk_of(tmp_path) is None  # it is not mounted


def test_a_disk_of_tables_that_hangs_holds_up_no_report(tmp_path, monkeypatch):
    """However often it is asked for, it takes one thread."""
    goes_on, looks = threading.Event(), []

    def hangs(data_dir):
        looks.append(data_dir)
        goes_on.wait()

    monkeypatch.setattr(module, "tables_disk_of", hangs)
    monkeypatch.setattr(module, "LOOK_S", 0.01)

    async def story(kafka):
        status = StatusFiles(tmp_path)
        try:
            for _ in range(3):
                found = await report(kafka, status, Lake(tmp_path))
                assert found.tables_disk is None
                assert found.disk is not None
        finally:
            goes_on.set()

    with nobody() as address:
        asyncio.run(story(Kafka(address, 0.2)))
    assert looks == [tmp_path]


def test_tables_in_the_data_directory_have_no_disk_of_their_own(tmp_path):
    (tmp_path / "tables").mkdir()
    assert reported(tmp_path).tables_disk is None
