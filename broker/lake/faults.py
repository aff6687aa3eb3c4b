"""Places of tables that could not be read for a consumer, until they can be again.

The problem: a data file that is lost or damaged after it was verified is noticed by
whoever reads it, and told to that consumer alone, whose client tries again in silence.
The idea: each such place is kept and told, and tried again every five seconds, so that
it is forgotten once the file is back, or its owner took it out of the log. The price:
what nobody reads is not known; and a damaged row group is read again each time, by one
of the threads that serve old offsets.
"""

import threading
from typing import Final, NamedTuple

import structlog

from broker.lake.table import TopicTable

log = structlog.get_logger("lakelog.lake")

FAULTS_MAX: Final = 100
LOOK_S: Final = 5.0
"""So long after the last time they are tried again."""


class Fault(NamedTuple):
    """From which offset on a partition could not be read, and why."""

    table: TopicTable
    partition: int
    offset: int
    why: str

    @property
    def sentence(self) -> str:
        """As an operator is told."""
        return (
            f"the table {self.table.path} cannot be read from offset {self.offset} of "
            f"partition {self.partition} on: {self.why}"
        )


class Faults:
    """What is known, one for each table and reason; any thread may ask."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Fault] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._found)

    def all(self) -> list[Fault]:
        """Those that are known, the oldest first."""
        with self._lock:
            return list(self._found.values())

    def add(self, fault: Fault) -> None:
        """It was met now. The first one of a reason is logged; there are not more than
        `FAULTS_MAX`."""
        key = fault.table.path, fault.why
        with self._lock:
            if key in self._found or len(self._found) >= FAULTS_MAX:
                return
            self._found[key] = fault
        log.error(
            "records cannot be read from a table",
            table=fault.table.path,
            partition=fault.partition,
            offset=fault.offset,
            why=fault.why,
        )

    def drop(self, fault: Fault) -> None:
        """It is no more."""
        with self._lock:
            gone = self._found.pop((fault.table.path, fault.why), None)
        if gone is not None:
            log.info(
                "records can be read from a table again",
                table=fault.table.path,
                partition=fault.partition,
                offset=fault.offset,
            )
