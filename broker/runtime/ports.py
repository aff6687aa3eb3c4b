"""The faces of the parts that the runtime drives but does not build.

The tables, the timers and the counters are rooms of their own. Naming here exactly
what is used of them keeps the direction of imports, and lets a test hand in the real
part or a small fake of it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.protocol.buffers import Buffer


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> object: ...


class Timers(Protocol):
    """Delays of the event loop (``runtime/loop_timers.py``)."""

    def after(self, delay_ms: int, callback: Callable[[], None], /) -> Timer: ...


class InCounters(Protocol):
    """What is counted of appends (``runtime/status.py``)."""

    batches_in: int
    records_in: int
    bytes_in: int


class ColdRead(Protocol):
    """Rebuilt batches of a table, and the offset at which reading goes on."""

    @property
    def batches(self) -> Sequence[Buffer]: ...

    @property
    def next_offset(self) -> int: ...


class Lake(Protocol):
    """The tables, as the broker reads them (``broker/lake``)."""

    def table_end(self, number: int, partition: int) -> int:
        """First offset that is not in the table; 0 if there is no table."""

    def table_bytes(self, number: int, partition: int, /) -> int:
        """Bytes of the partition's files in the table."""

    async def read(
        self, number: int, partition: int, offset: int, bytes_max: int
    ) -> ColdRead: ...

    async def find_timestamp(
        self, number: int, partition: int, timestamp_ms: int, start_offset: int, /
    ) -> tuple[int, int] | None:
        """First (offset, timestamp) from ``start_offset`` on, stamped so or later."""

    async def max_timestamp(
        self, number: int, partition: int, start_offset: int, /
    ) -> tuple[int, int] | None:
        """First (offset, timestamp) with the greatest timestamp from there on."""
