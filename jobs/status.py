"""What the compactor counts and says of itself, and its file, once a second.

What is said is fixed in `broker.status`; here it is gathered. Tables that nothing waits
for are left out, and of the others at most `TABLES_MAX` are named, those that are stuck
first: a status is for people and alarms, not a listing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import structlog

from broker.ids import PartitionNumber, TopicNumber, TopicPartition
from broker.status import file
from broker.status.schema import CompactorStatus, TableState
from broker.storage.files import PosixFiles
from broker.topics.topic import Topic
from jobs.planner import Pending
from jobs.round import Outcome
from jobs.stuck import WHOLE_TOPIC, Failure, Stuck

PERIOD_S: Final = 1.0
TABLES_MAX: Final = 1_000
LOG_AGAIN_MS: Final = 60_000

log = structlog.get_logger("lakelog.compactor")


@dataclass(slots=True)
class Counters:
    """Plain integers since the start of the process."""

    restarts: int = 0
    """Of ``lakelog up``, and so before this process."""
    rounds: int = 0
    rounds_failed: int = 0
    rounds_ms: int = 0
    rounds_write_ms: int = 0
    rounds_commit_ms: int = 0
    rows: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    files: int = 0
    commits: int = 0
    merges: int = 0
    merges_failed: int = 0
    merged_files: int = 0
    merged_bytes: int = 0
    merge_file_bytes: int = 0
    cleans: int = 0
    cleans_failed: int = 0
    cleaned_rows: int = 0
    cleaned_bytes: int = 0
    clean_file_bytes: int = 0
    owner_waits: int = 0

    def add_round(self, outcome: Outcome, took_ms: int) -> None:
        """Count what a round did."""
        self.rounds += 1
        self.rounds_ms += took_ms
        self.rounds_write_ms += outcome.write_ms
        self.rounds_commit_ms += outcome.commit_ms
        self.rows += outcome.rows
        self.log_bytes += outcome.log_bytes
        self.file_bytes += outcome.file_bytes
        self.files += outcome.files
        self.commits += outcome.commits

    @property
    def amplification_percent(self) -> int:
        """Bytes that rounds, merges and cleans wrote, for each hundred that rounds
        did."""
        written = self.file_bytes + self.merge_file_bytes + self.clean_file_bytes
        return 100 * written // self.file_bytes if self.file_bytes else 0

    def totals(self) -> dict[str, int]:
        """All of them, under names that end in ``_total``."""
        return {f"{one.name}_total": getattr(self, one.name) for one in fields(self)}


def problems_of(topics: Mapping[TopicNumber, Topic], stuck: Stuck) -> tuple[str, ...]:
    """One sentence for each topic or partition that is stuck."""
    return tuple(
        f"{_name(topics, number, partition)} cannot be compacted: {failure.why}"
        for (number, partition), failure in stuck.stuck()
    )


def _name(
    topics: Mapping[TopicNumber, Topic], number: TopicNumber, partition: PartitionNumber
) -> str:
    name = topics[number].name if number in topics else f"topic {number}"
    return name if partition == WHOLE_TOPIC else f"{name}-{partition}"


def table_states(
    topics: Mapping[TopicNumber, Topic],
    waiting: Iterable[Pending],
    ends: Mapping[TopicPartition, int],
    unreadable: Mapping[TopicNumber, str],
    stuck: Stuck,
    now_ms: int,
    *,
    refusing: Mapping[TopicNumber, str],
    wall_ms: int,
) -> tuple[TableState, ...]:
    """The tables that records wait for, or that would take none, those that are stuck
    first, at most `TABLES_MAX`.

    ``now_ms`` is on the clock of ``waiting`` and ``stuck``; ``wall_ms`` is the same
    instant as people know it.
    """
    failures, reasons = _tried_last(stuck), {**refusing, **unreadable}
    by_topic: dict[TopicNumber, list[Pending]] = {
        number: [] for number in (*failures, *reasons)
    }
    for one in waiting:
        by_topic.setdefault(one.key[0], []).append(one)
    known_ends: dict[TopicNumber, dict[int, int]] = {}
    for (number, partition), end in ends.items():
        known_ends.setdefault(number, {})[partition] = end
    states = []
    for number, pending in by_topic.items():
        if number not in topics:
            continue
        failure = failures.get(number)
        states.append(
            TableState(
                topics[number].name,
                readable=number not in unreadable,
                stuck=failure is not None,
                why=failure.why if failure else reasons.get(number, ""),
                since_ms=wall_ms - now_ms + failure.since_ms if failure else 0,
                request_id=failure.request_id if failure else None,
                ends=known_ends.get(number, {}),
                pending_bytes=sum(one.bytes for one in pending),
                lag_ms=max((now_ms - one.since_ms for one in pending), default=0),
                lags_ms={one.key[1]: now_ms - one.since_ms for one in pending},
            )
        )
    states.sort(key=lambda state: (not state.stuck, state.readable, -state.lag_ms))
    return tuple(states[:TABLES_MAX])


def _tried_last(stuck: Stuck) -> dict[TopicNumber, Failure]:
    """Of each topic that is stuck, the failure that knows the newest request."""
    by_request = sorted(stuck.stuck(), key=lambda found: found[1].request_id)
    return {key[0]: failure for key, failure in by_request}


class StatusFile:
    """Writes what ``say`` returns below ``data_dir``, on a thread of its own; but
    nothing in the place of another's who says something while we stand by."""

    def __init__(
        self,
        data_dir: Path,
        say: Callable[[], CompactorStatus],
        has_lease: Callable[[], bool],
    ) -> None:
        self._path, self._say = file.path_of(data_dir, CompactorStatus), say
        self._data_dir, self._has_lease = data_dir, has_lease
        self._last: CompactorStatus | None = None
        self._files = PosixFiles()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Write now and each second from now on."""
        self._path.parent.mkdir(exist_ok=True)
        self.write()
        self._thread.start()

    def stop(self) -> None:
        """Write a last time and stop."""
        self._stop.set()
        self._thread.join()
        self.write()

    def write(self) -> None:
        """Write now; a disk that takes nothing is reported by what writes data."""
        if not self._has_lease() and self._is_anothers():
            return
        said = self._say()
        try:
            file.replace(self._files, self._path, file.encode(said))
        except OSError:
            return
        self._last = said

    def _is_anothers(self) -> bool:
        """Whether somebody else says something; numbers of processes do not tell that,
        for each container has its own."""
        found = file.read(self._data_dir, CompactorStatus, time.time())
        return found not in (None, self._last) and found.state != "stopped"

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self.write()


def log_stuck(key: TopicPartition, why: str) -> None:
    """Log what stops a partition, or a whole topic."""
    if key[1] == WHOLE_TOPIC:
        log.error("a topic cannot be compacted", topic=key[0], why=why)
    else:
        log.error(
            "a partition cannot be compacted", topic=key[0], partition=key[1], why=why
        )


class HeldLog:
    """Logs each minute the partitions that stop before damage in a segment."""

    def __init__(self) -> None:
        self._again_ms = 0

    def look(self, held: Mapping[TopicPartition, str], now_ms: int) -> None:
        """``held``: partition -> why, on a clock that only goes forward."""
        if held and now_ms >= self._again_ms:
            self._again_ms = now_ms + LOG_AGAIN_MS
            for key, why in held.items():
                log_stuck(key, why)
