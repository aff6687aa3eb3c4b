"""What a handler may reach: the parts of a running broker, named in one place.

The problem: some thirty handlers need the log, the catalog, the clock and the groups,
and none of them should build or look up any of it. The idea: one record of the parts,
made once by ``broker.assembly`` and handed to every request in its ``Context``. The
price: a new part is a new field here, which is also how one learns what a broker
consists of.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from broker.catalog.catalog import Catalog
from broker.clock import Clock
from broker.runtime.budget import Budget
from broker.runtime.configs.dynamic_configs import DynamicConfigs
from broker.runtime.configs.features import Features
from broker.runtime.coordination.coordinator import Coordinator
from broker.runtime.coordination.producer_ids import ProducerIds
from broker.runtime.coordination.transactions import TransactionCoordinator
from broker.runtime.partitions.fetch_sessions import ServedSessions
from broker.runtime.partitions.partitions import Partitions
from broker.runtime.ports import Tables
from broker.runtime.process.status import Counters
from broker.runtime.process.telemetry import Telemetry
from broker.runtime.topics.topics import Topics
from broker.settings import Settings
from broker.shared_look import SharedLook
from broker.storage.wal import Wal
from broker.timing.delayed import DelayedOperations, Timers

RECOMPRESSED_BYTES_MAX: Final = 64 << 20
CONVERSIONS_MAX: Final = 2
"""Each may take some 200 MiB for a moment, if a hostile client wants it to."""


@dataclass(slots=True)
class Broker:
    """The parts of one running broker; all of them belong to the event loop.

    ``settings`` are those that hold now: clients may change some (``configs``).
    ``advertised`` is the host and port that clients are told to connect to.
    """

    settings: Settings
    clock: Clock
    timers: Timers
    catalog: Catalog
    topics: Topics
    partitions: Partitions
    groups: Coordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    lake: Tables
    wal: Wal
    purgatory: DelayedOperations
    fetch_sessions: ServedSessions
    counters: Counters
    configs: DynamicConfigs
    features: Features
    telemetry: Telemetry
    cluster_id: str
    node_id: int
    advertised: tuple[str, int]
    fetched: Budget = field(init=False)
    """Bytes of records that fetches read into memory and that are not sent yet."""
    conversions: asyncio.Semaphore = field(init=False)
    """Of old message sets, in both directions, and of batches into their topics'
    codecs: so many run at once."""
    recompressed: Budget = field(init=False)
    """Bytes of batches that were compressed anew and are not answered yet: a
    few kilobytes may become a megabyte."""
    room: asyncio.Lock = field(init=False)
    """Held by who waits for room in ``recompressed``: in the order of arrival, so that
    neither do the small overtake the large, nor are all woken for one."""
    disks: SharedLook[Any] = field(init=False)
    """How full the disks are, where that of the tables is another than the log's."""

    def __post_init__(self) -> None:
        self.conversions = asyncio.Semaphore(CONVERSIONS_MAX)
        self.recompressed = Budget(RECOMPRESSED_BYTES_MAX)
        self.room = asyncio.Lock()
        self.disks = SharedLook()
        self.fetched = Budget(self.settings.network.fetched_bytes_max)
