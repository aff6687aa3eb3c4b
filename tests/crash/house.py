"""A data directory with its broker and compactors, as the crash tests use them."""

import json
import os
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from jobs.check import check_data_directory
from lakehouse.location import table_path
from tests.crash.workload import Doubled, Found, Load, Watcher, create_topic
from tests.support.patience import STUCK_S
from tests.support.process import BrokerPart, Part, lakelog

HITS = int(os.environ.get("LAKELOG_CRASH_HITS", "1"))
"""How often each named point is hit; 20 in the long form."""
KILLS = int(os.environ.get("LAKELOG_CRASH_KILLS", "3"))
"""Kills at random times."""

SMALL = (
    # small and short-lived, so that sealing and letting go happen all the time
    "wal.segment_bytes=1Mi", "wal.roll_ms=700", "wal.keep_ms=0", "lake.flush_ms=300",
    "lake.flush_max_ms=300",
    "groups.initial_rebalance_delay_ms=0",
)  # fmt: skip

LOSSES = ("are in no segment", "were durable and are damaged")
"""What the broker says of offsets that nobody can read any more."""


class House:
    """The broker runs when this is made; the compactor when it is started.

    ``altered``: words of `tests.crash.altered` for the broker, and for compactors.
    Without ``spark`` compactors do the work of Spark's workers themselves.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        logs: Path | None = None,
        settings: tuple[str, ...] = SMALL,
        altered: str = "",
        spark: bool = False,
        partitions: int = 3,
    ) -> None:
        self.data_dir, self.partitions = data_dir, partitions
        self._settings, self._logs = settings, logs
        self._parts: list[Part] = []
        self.broker = BrokerPart(data_dir, *settings)
        self._keep(self.broker, altered)
        words = ",".join(filter(None, (altered, "" if spark else "in_process")))
        self._compactor_altered = words
        self.compactor = self.another_compactor()

    def start(self) -> "House":
        self.broker.start()
        create_topic(self.broker.bootstrap, "t", self.partitions)
        return self

    def another_compactor(self) -> Part:
        part = Part("compactor", self.data_dir, *self._settings)
        self._keep(part, self._compactor_altered)
        part.log = part.log.with_suffix(f".{len(self._parts)}.log")
        return part

    def _keep(self, part: Part, altered: str) -> None:
        if altered:
            part.program = ["tests.crash.altered", altered]
        if self._logs is not None:
            part.log = self._logs / part.log.name
        self._parts.append(part)

    def load(self, name: str, **how: object) -> Load:
        return Load(self.broker.bootstrap, "t", self.partitions, name, **how)  # type: ignore[arg-type]

    def watcher(self) -> Watcher:
        return Watcher(self.broker.bootstrap, "t", self.partitions)

    def flush(self, topic: str = "t", timeout_s: int = 600) -> None:
        """All that was acknowledged stands in the table when this returns."""
        words = ("--data-dir", str(self.data_dir), "--timeout", str(timeout_s))
        lakelog("compact", topic, *words)

    def in_table(self, topic: str = "t") -> Found:
        """(partition, offset) -> value, read by a Delta reader. Raises Doubled."""
        path = table_path(str(self.data_dir / "tables"), topic)
        names = ["partition", "offset", "value"]
        table = DeltaTable(path).to_pyarrow_table(columns=names)
        columns = (table[name].to_pylist() for name in names)
        found: Found = {}
        for partition, offset, value in zip(*columns, strict=True):
            if (partition, offset) in found:
                raise Doubled(f"row {partition}/{offset} stands twice in the table")
            found[partition, offset] = value
        return found

    def problems(self) -> list[str]:
        """What /readyz tells of the broker."""
        problems: list[str] = self.status()["problems"]
        return problems

    def status(self) -> dict[str, Any]:
        """What the broker wrote of itself a second ago at most."""
        path = self.data_dir / "run" / "broker.json"
        status: dict[str, Any] = json.loads(path.read_text())
        return status

    def status_s(self) -> float:
        """When that was, in seconds since the epoch."""
        return (self.data_dir / "run" / "broker.json").stat().st_mtime

    def lost(self) -> list[str]:
        """Those of its problems which say that offsets are gone."""
        return [one for one in self.problems() if any(how in one for how in LOSSES)]

    def check(self) -> None:
        """What ``lakelog check`` verifies."""
        assert check_data_directory(self.data_dir).problems == []

    def end(self) -> None:
        for part in self._parts:
            part.end()


def sleeps_through_the_work_of_another(house: House) -> None:
    """One compactor is stopped right before it commits, for as long as another one
    takes to do that work and more. Then it goes on where it was, and is alone."""
    house.compactor.start(failpoints="compact.before_commit=1", wait=False)
    assert house.compactor.stopped(STUCK_S), "it had nothing to commit"
    second = house.another_compactor()
    second.start()
    house.flush()
    second.kill()
    house.compactor.go_on()
