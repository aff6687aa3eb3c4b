"""The status file: whole, fresh, and readable by another process."""

import asyncio
import json
from pathlib import Path
from typing import Any

import uvloop

from broker.clock import SystemClock
from broker.runtime.loop_timers import Timers
from broker.runtime.status import Counters, StatusFile
from broker.storage.files import PosixFiles


def status(path: Path, facts: dict[str, Any]) -> StatusFile:
    clock = SystemClock()
    timers = Timers(asyncio.get_running_loop(), clock)
    files = PosixFiles()
    return StatusFile(path, lambda: facts, clock=clock, timers=timers, files=files)


def test_it_is_written_at_once_each_second_and_at_the_end(tmp_path: Path) -> None:
    path, facts = tmp_path / "broker.json", {"state": "serving"}

    async def story() -> None:
        file = status(path, facts)
        file.start()
        await asyncio.sleep(0.2)
        first = json.loads(path.read_bytes())
        assert first["state"] == "serving"
        await asyncio.sleep(1.0)
        assert json.loads(path.read_bytes())["written_ms"] > first["written_ms"]
        facts["state"] = "stopped"
        await file.close()
        assert json.loads(path.read_bytes())["state"] == "stopped"

    uvloop.run(story())
    assert [entry.name for entry in tmp_path.iterdir()] == ["broker.json"]


def test_a_directory_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        file = status(tmp_path / "missing" / "broker.json", {})
        file.start()
        await file.close()

    uvloop.run(story())


def test_counters_name_the_requests() -> None:
    counters = Counters()
    counters.requests[18] += 2
    counters.requests[99] += 1
    counters.bytes_in += 5
    told = counters.as_dict({18: "api_versions"})
    assert told["requests"] == {"api_versions_total": 2, "99_total": 1}
    assert told["bytes_in_total"] == 5
    assert told["connections_total"] == 0
    assert told["connections_open"] == 0
