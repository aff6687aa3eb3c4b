"""What a handler may reach: the parts of a running broker, named in one place.

The problem: sixteen handlers need the log, the catalog, the clock and the groups, and
none of them should build or look up any of it. The idea: one record of the parts, made
by the node once and handed to every request in its ``Context``. The price: a new part
is a new field here, which is also how one learns what a broker consists of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from broker.clock import Clock
from broker.runtime.partitions import Partitions
from broker.runtime.ports import Lake, Timers, Waits
from broker.runtime.topics import Topics


class Counters(Protocol):
    """Plain integers that handlers raise and the status page shows."""

    records_in: int
    bytes_in: int
    batches_in: int
    bytes_out: int


@dataclass(slots=True)
class Broker:
    """The parts of one running broker.

    ``advertised`` is what clients are told to connect to; ``segment_store`` facts come
    from ``wal``. Everything here is used on the event loop only, unless the part says
    otherwise of itself.
    """

    settings: Any
    clock: Clock
    timers: Timers
    catalog: Any
    topics: Topics
    partitions: Partitions
    groups: Any
    producer_ids: Any
    lake: Lake
    wal: Any
    waits: Waits
    counters: Any
    cluster_id: str
    node_id: int
    advertised: tuple[str, int]
