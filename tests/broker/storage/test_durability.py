"""The calls on which the log's promises rest, in order, on the real file system.

Every other test here stays green when a sync is taken out; these do not.
"""

from pathlib import Path

import pytest

from broker.storage.files import PosixFiles
from tests.broker.storage.driver import Driver
from tests.support.syscalls import SystemCalls, in_order

QUIET = {"spare_segments": 1, "segment_bytes": 64 << 10}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SystemCalls:
    return SystemCalls(monkeypatch, tmp_path)


def a_log(tmp_path: Path) -> Driver:
    """With a slot to write to, and a recycler that has nothing left to do."""
    driver = Driver(PosixFiles(), tmp_path / "wal", **QUIET)
    driver.until(lambda: not driver.wal._pool.wants())
    return driver


def active(driver: Driver) -> str:
    return f"wal/{driver.wal.segments()[-1].path.name}"


def test_a_segment_file_is_durable_before_it_is_used(
    tmp_path: Path, calls: SystemCalls
) -> None:
    driver = a_log(tmp_path)
    name = next(
        one.split()[-1] for one in calls.events if one.startswith("rename wal/s")
    )
    wanted = [f"reserve {name}.new", f"sync {name}.new",
              f"rename {name}.new {name}", "sync directory wal"]  # fmt: skip
    assert in_order(calls.events, wanted)
    driver.close()


def test_a_write_is_synced_before_it_is_acknowledged(
    tmp_path: Path, calls: SystemCalls
) -> None:
    driver = a_log(tmp_path)
    driver.finish([driver.append()])
    name = active(driver)
    calls.clear()
    told: list[str] = []
    one = driver.append()
    one.done = lambda append: (
        told.extend(calls.of(name, "horizon")),
        driver.finished.append(append),
    )
    driver.finish([one])
    assert told == [f"write {name}", f"sync {name}", "write wal/horizon"]
    driver.close()


def test_a_seal_is_synced_before_the_next_segment_is_begun(
    tmp_path: Path, calls: SystemCalls
) -> None:
    driver = a_log(tmp_path)
    driver.finish([driver.append()])
    sealed = active(driver)
    calls.clear()
    driver.wal.roll()
    driver.finish([driver.append()])
    begun = active(driver)
    assert begun != sealed
    footer_and_seal = [f"write {sealed}", f"write {sealed}", f"sync {sealed}"]
    assert calls.of(sealed) == footer_and_seal
    assert in_order(calls.events, [*footer_and_seal, f"write {begun}"])
    driver.close()


REPLACED = [
    "write wal/checkpoint.new",
    "sync wal/checkpoint.new",
    "rename wal/checkpoint.new wal/checkpoint",
    "sync directory wal",
]


def test_a_checkpoint_is_whole_and_durable_under_its_name(
    tmp_path: Path, calls: SystemCalls
) -> None:
    driver = a_log(tmp_path)
    driver.finish([driver.append()])
    driver.until(lambda: not driver.wal._pool.wants())
    calls.clear()
    driver.wal.checkpoint(b"state")
    driver.until(lambda: "sync directory wal" in calls.events)
    assert calls.of("checkpoint", "directory") == REPLACED
    driver.close()


def test_a_released_file_is_used_again_only_behind_a_durable_manifest(
    tmp_path: Path, calls: SystemCalls
) -> None:
    driver = a_log(tmp_path)
    driver.finish([driver.append()])
    released = driver.wal.segments()[0]
    name = f"wal/{released.path.name}"
    driver.wal.roll()
    driver.finish([driver.append()])
    driver.wal.checkpoint(b"")
    driver.until(lambda: driver.wal._recycler._manifest.payload is not None)
    calls.clear()
    driver.wal.release(released.sequence)
    while f"write {name}" not in calls.events:
        driver.finish([driver.append()])
        driver.wal.roll()
    assert in_order(calls.events, [*REPLACED, f"write {name}"])
    before = calls.events[: calls.events.index(f"write {name}")]
    assert "rename wal/checkpoint.new wal/checkpoint" in before
    driver.close()


def test_what_a_start_keeps_is_synced(tmp_path: Path, calls: SystemCalls) -> None:
    driver = a_log(tmp_path)
    driver.finish([driver.append()])
    name = active(driver)
    driver.close()
    calls.clear()
    again = Driver(PosixFiles(), tmp_path / "wal", **QUIET)
    footer_and_seal = [f"write {name}", f"write {name}", f"sync {name}"]
    assert in_order(calls.events, [*footer_and_seal, *REPLACED])
    again.close()
