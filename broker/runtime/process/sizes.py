"""How much the broker keeps in memory and what waits in it, for its status.

Once a second, on the loop's thread: each of these is a number that its part keeps.
"""

from dataclasses import replace

from broker.lake.cold import ColdFigures
from broker.runtime.services import Broker
from broker.status.schema import (
    BrokerStatus,
    CacheState,
    FetchSessionState,
    QueueState,
)


def sized(
    status: BrokerStatus, broker: Broker, cold: ColdFigures, request_bytes: int
) -> BrokerStatus:
    """``status`` with what ``broker`` keeps; ``cold`` is of its tables' readers, and
    ``request_bytes`` are those of all requests that are open."""
    sessions = broker.fetch_sessions.sessions
    return replace(
        status,
        counters={
            **status.counters,
            "cold_bytes_out_total": cold.bytes_out,
            "cold_cache_hits_total": cold.cache_hits,
            "cold_cache_misses_total": cold.cache_misses,
            "fetch_sessions_evicted_total": sessions.evicted,
        },
        cold_read_times=cold.times,
        disk=broker.wal.disk(),
        cache=CacheState(broker.wal.hot_bytes, cold.cache_bytes),
        fetch_sessions=FetchSessionState(len(sessions), sessions.bytes),
        queue=QueueState(len(broker.partitions.overdue.queue), request_bytes),
    )
