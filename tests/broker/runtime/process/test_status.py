"""The status file: whole, fresh, and readable by another process."""

import asyncio
import time
from pathlib import Path

import uvloop

from broker.clock import SystemClock
from broker.runtime.process.loop_timers import LoopTimers
from broker.runtime.process.status import Counters, StatusFile
from broker.status import file
from broker.status.schema import BrokerStatus
from broker.storage.files import PosixFiles


def status(data_dir: Path, said: list[BrokerStatus]) -> StatusFile:
    clock = SystemClock()
    timers = LoopTimers(asyncio.get_running_loop(), clock)
    path = file.path_of(data_dir, BrokerStatus)
    return StatusFile(
        path, lambda: said[-1], clock=clock, timers=timers, files=PosixFiles()
    )


def read(data_dir: Path) -> BrokerStatus | None:
    return file.read(data_dir, BrokerStatus, time.time())


def test_it_is_written_at_once_each_second_and_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    said = [BrokerStatus(state="serving")]

    async def story() -> None:
        written = status(tmp_path, said)
        written.start()
        while (first := read(tmp_path)) is None:
            await asyncio.sleep(0.01)
        assert first.state == "serving"
        while (now := read(tmp_path)) is None or now.written_ms == first.written_ms:
            await asyncio.sleep(0.01)
        said.append(BrokerStatus(state="stopped"))
        await written.close()

    uvloop.run(story())
    last = read(tmp_path)
    assert last is not None
    assert last.state == "stopped"
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["broker.json"]


def test_a_directory_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        written = status(tmp_path / "missing", [BrokerStatus()])
        written.start()
        await written.close()

    uvloop.run(story())


def test_counters_name_the_requests() -> None:
    counters = Counters()
    counters.requests[18] += 2
    counters.requests[99] += 1
    counters.bytes_in += 5
    assert counters.requests_by_name({18: "api_versions"}) == {
        "api_versions": 2,
        "99": 1,
    }
    counters.times[18].add_time(5)
    times = counters.times_by_name({18: "api_versions"})
    assert times.keys() == {"api_versions", "99"}
    assert times["api_versions"].total == 5
    totals = counters.totals()
    assert totals["bytes_in_total"] == 5
    assert totals["connections_total"] == 0
    assert "connections_open" not in totals
