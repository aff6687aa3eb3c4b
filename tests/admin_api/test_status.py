"""Status files as the endpoints ask for them, written by the real writers."""

import asyncio
from pathlib import Path
from typing import Any

import uvloop

from admin_api.status import StatusFiles
from broker.clock import SystemClock
from broker.runtime.process.loop_timers import LoopTimers
from broker.runtime.process.status import StatusFile as BrokerStatusFile
from broker.status.file import path_of
from broker.status.schema import BrokerStatus, CompactorStatus
from broker.storage.files import PosixFiles
from jobs.status import StatusFile as CompactorStatusFile


def write_broker(data_dir: Path, status: BrokerStatus) -> None:
    async def story() -> None:
        clock = SystemClock()
        timers = LoopTimers(asyncio.get_running_loop(), clock)
        more: Any = {"clock": clock, "timers": timers, "files": PosixFiles()}
        path = path_of(data_dir, BrokerStatus)
        await BrokerStatusFile(path, lambda: status, **more).close()

    uvloop.run(story())


def test_the_writers_and_the_reader_agree(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    status = StatusFiles(tmp_path)
    assert (status.broker(), status.compactor()) == (None, None)
    write_broker(tmp_path, BrokerStatus(problems=("full",)))
    compactor = CompactorStatus(problems=("t is stuck",), counters={"rows_total": 1})
    CompactorStatusFile(tmp_path, lambda: compactor, lambda: True).write()
    broker = status.broker()
    assert broker is not None
    assert broker.problems == ("full",)
    assert broker.written_ms > 0
    assert status.compactor() == compactor
