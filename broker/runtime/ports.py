"""The faces of the parts that the runtime drives but does not build.

The log and the tables, the timers and the delayed operations are rooms of their own.
Naming here exactly what is used of them keeps the direction of imports and lets a test
hand in the real part or a small fake of it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Delays of the event loop (``runtime/loop_timers.py``)."""

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...


class ColdRead(Protocol):
    """Rebuilt batches of a table, and the offset at which reading goes on."""

    @property
    def batches(self) -> Sequence[bytes]: ...

    @property
    def next_offset(self) -> int: ...


class Lake(Protocol):
    """The tables, as the broker reads them (``broker/lake``)."""

    def table_end(self, number: int, partition: int) -> int:
        """First offset that is not in the table; 0 if there is no table."""

    def log_first(self, number: int, partition: int) -> int | None:
        """Lowest offset in the table, None when it holds nothing."""

    async def read(
        self, number: int, partition: int, offset: int, bytes_max: int
    ) -> ColdRead: ...

    async def find_timestamp(
        self, number: int, partition: int, timestamp_ms: int
    ) -> tuple[int, int] | None: ...
