"""The status of each part, typed: what the writers must say and the readers may expect.

The problem: broker, compactor, admin plane and command line are processes that share a
directory; a name that one writes and another reads must be the same name. The idea: the
names are the fields of these classes, with a sentence each, and both sides use them. A
reader takes what it knows: a field that is missing has its default, one that it does
not know is passed over, so parts of two versions understand each other.

What only grows stands in ``counters`` under a name that ends in ``_total``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from broker.status.histogram import HistogramState


def _says(sentence: str, default: Any = 0) -> Any:
    """A field whose metric is explained by ``sentence``."""
    return field(default=default, metadata={"help": sentence})


@dataclass(frozen=True, slots=True)
class TableState:
    """How a topic's table stands; all ends are exclusive offsets."""

    topic: str
    readable: bool = True
    stuck: bool = False
    """Nothing is committed to it although records wait."""
    why: str = ""
    """One sentence if it is not readable or stuck, or would take no record."""
    since_ms: int = 0
    """Since when, in milliseconds since the epoch."""
    request_id: int | None = None
    """If it is stuck: the newest request to the compactor that was known when it was
    last tried, 0 if there was none; None if whoever wrote this does not say."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Partition -> first offset that is not in the table."""
    pending_bytes: int = 0
    """If it is not readable, from its last known end on; none known: all of the log."""
    lag_ms: int = 0
    """Age of the oldest record that is not in the table; as far as `pending_bytes`."""
    lags_ms: Mapping[int, int] = field(default_factory=dict)
    """Partition -> the same; those that wait for nothing are left out."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds a table back: of its partition nothing from
    ``start_offset`` on is committed to the table before it ends."""

    topic: str
    partition: int
    start_offset: int = 0
    producer_id: int = -1
    transactional_id: str | None = None
    """None: no transactional id has this producer."""
    hangs: bool = False
    """No coordinator will end it: its id has another transaction, or none."""
    since_ms: int = 0
    """When it began, in milliseconds since the epoch; of one that hangs, when the
    broker first saw it."""
    held_offsets: int = 0
    """From its beginning to the end of the log."""


@dataclass(frozen=True, slots=True)
class WalState:
    """The write-ahead log on disk."""

    segments: int = _says("Write-ahead segments that are alive.")
    bytes: int = _says("Bytes of write-ahead segments that are alive.")


@dataclass(frozen=True, slots=True)
class DiskState:
    """The file system of the log, or of tables that lie elsewhere; all 0 where nobody
    has looked at it."""

    free_bytes: int = _says("Bytes of the disk that are free.")
    total_bytes: int = _says("Bytes of the disk.")
    low_bytes: int = _says("With fewer free bytes nothing more is written to the disk.")


@dataclass(frozen=True, slots=True)
class CacheState:
    """What is kept in memory for readers."""

    hot_bytes: int = _says("Bytes of the newest segments, which are read from memory.")
    cold_bytes: int = _says("Bytes of chunks of tables that are kept for readers.")


@dataclass(frozen=True, slots=True)
class FetchSessionState:
    """What consumers have the broker remember of their fetches."""

    open: int = _says("Fetch sessions that are open.")
    bytes: int = _says("Bytes that all fetch sessions take.")


@dataclass(frozen=True, slots=True)
class QueueState:
    """What waits inside of the broker."""

    unsynced_batches: int = _says("Batches that are on their way to the disk.")
    request_bytes: int = _says("Bytes of requests that have no answer yet.")


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What the broker says of itself."""

    written_ms: int = _says("When this was written, milliseconds since the epoch.")
    state: str = ""
    pid: int = 0
    started_ms: int = _says("When the process began, milliseconds since the epoch.")
    node_id: int = 0
    kafka: str = ""
    cluster_id: str = ""
    problems: tuple[str, ...] = ()
    """Why clients cannot produce or consume all they may, one sentence each."""
    warnings: tuple[str, ...] = ()
    """What an operator should know and no client notices."""
    topics: int = _says("Topics that exist.")
    partitions: int = _says("Partitions that exist.")
    waiting: int = _says("Requests that wait for something: data, members, time.")
    connections_open: int = _says("Connections that are open.")
    wal: WalState = field(default_factory=WalState)
    disk: DiskState = field(default_factory=DiskState)
    """That of the log."""
    cache: CacheState = field(default_factory=CacheState)
    fetch_sessions: FetchSessionState = field(default_factory=FetchSessionState)
    queue: QueueState = field(default_factory=QueueState)
    loop_idle_percent: int = _says(
        "Share of the last seconds in which the event loop's thread took no processor."
    )
    tables: tuple[TableState, ...] = ()
    """Tables that cannot be read, or not as a whole."""
    partitions_held: int = _says("Partitions with a transaction that is open.")
    transaction_oldest_ms: int = _says("Age of the oldest transaction that is open.")
    transactions: tuple[OpenTransaction, ...] = ()
    """Those that hold tables back, the oldest ones first; not all if there are many."""
    counters: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    """Name of an API -> requests that were answered."""
    request_times: Mapping[str, HistogramState] = field(default_factory=dict)
    """Name of an API -> how long they took, in nanoseconds."""
    sync_times: HistogramState = field(default_factory=HistogramState)
    """How long syncs of the log took, in nanoseconds."""
    group_batches: HistogramState = field(default_factory=HistogramState)
    """How many batches were acknowledged together."""
    loop_lag: HistogramState = field(default_factory=HistogramState)
    """How late the event loop was, in nanoseconds."""
    cold_read_times: HistogramState = field(default_factory=HistogramState)
    """How long reads of tables for consumers took, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class CompactorStatus:
    """What the compactor says of itself."""

    written_ms: int = _says("When this was written, milliseconds since the epoch.")
    state: str = ""
    pid: int = 0
    problems: tuple[str, ...] = ()
    """Why records do not reach their tables, one sentence each."""
    round_ms: int = _says("Milliseconds that the last round took.")
    pending_bytes: int = _says("Bytes of log that are not in tables yet.")
    oldest_pending_ms: int = _says("Age of the oldest batch that is not in its table.")
    stuck: int = _says("Topics or partitions whose records do not reach their table.")
    damaged_places: int = _says("Places of the log that are damaged.")
    unreadable_tables: int = _says("Tables whose Delta log cannot be read.")
    niceness: int = _says("How far the workers stand behind others, 0 to 19.")
    tables: tuple[TableState, ...] = ()
    """Tables that records wait for, those that are stuck first."""
    round_times: HistogramState = field(default_factory=HistogramState)
    """How long rounds took, in nanoseconds."""
    round_rows: HistogramState = field(default_factory=HistogramState)
    round_bytes: HistogramState = field(default_factory=HistogramState)
    """Rows, and bytes of log, of a round that committed something."""
    freshness: HistogramState = field(default_factory=HistogramState)
    """How long the oldest record of each commit had waited, in nanoseconds."""
    freshness_ms: Mapping[str, int] = field(default_factory=dict)
    """Topic -> the same of its last commit; of those that were committed last."""
    write_amplification_percent: int = _says(
        "Bytes that rounds and merges wrote, for each hundred that rounds did."
    )
    left_alone: Mapping[str, str] = field(default_factory=dict)
    """Topic -> why files of its table are not merged; of some topics if many."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """Topic -> until when its table is held, in milliseconds since the epoch:
    nothing is committed to it before."""
    erased: tuple[str, ...] = ()
    """Those of these topics that an erasure alone holds."""
    held: int = _says("Topics whose tables their owners, or an erasure, hold.")
    waits_for_owners: int = _says(
        "Topics to whose tables nothing is committed while their owners change them."
    )
    rewriting: str = ""
    """Topic whose files a merge or clean writes anew; none of a held one is begun."""
    disk: DiskState = field(default_factory=DiskState)
    """That of the tables; its low mark is 0 where it is the log's, too."""
    counters: Mapping[str, int] = field(default_factory=dict)


def held_sentences(status: CompactorStatus) -> dict[str, str]:
    """Topic -> that nothing comes into its table, of those that are held."""
    return {
        topic: held_sentence(topic, until_ms, is_erased=topic in status.erased)
        for topic, until_ms in status.holds.items()
    }


def held_sentence(topic: str, until_ms: int, *, is_erased: bool = False) -> str:
    """That nothing comes into a topic's table before then, or before the erasure is
    over that holds it."""
    until = datetime.fromtimestamp(until_ms // 1000, UTC).isoformat()
    if is_erased:
        return (
            "lakelog erase holds its table, and records wait in the log until it ends "
            f"(if it was killed, until {until})"
        )
    return (
        f"its owner holds its table until {until}, and records wait in the log "
        f"(lakelog table {topic} --release)"
    )


DAMAGED: Final = "what is damaged"
TAKEN: Final = (
    "what was taken from the table (a log entry only if its version is still free, or "
    "what has it is empty or a LAKELOG REPAIR and no later one has its offsets)"
)


def way_out(end: int, put_back: str = "") -> str:
    """What can be done where records below ``end`` are lost, and what that takes with
    it. ``put_back``: what may be, `DAMAGED` or `TAKEN`; nothing where a start has
    judged what the log lost, since it may have given the offsets again."""
    start = f"Put back {put_back}, or, with" if put_back else "With"
    return (
        f"{start} all before it for consumers (and for the table, "
        "unless lake.retention.ms was set to -1 first), and once cleanup.policy has "
        f"`delete`, give it up with DeleteRecords before {end}"
    )


COUNTERS_HELP: Mapping[str, str] = {
    "connections_total": "Connections that were accepted.",
    "connections_refused_total": "Connections that were turned away.",
    "protocol_errors_total": "Frames that were no request of Kafka's protocol.",
    "handler_errors_total": "Requests whose handler failed by a fault of ours.",
    "network_bytes_in_total": "Bytes that were received.",
    "network_bytes_out_total": "Bytes that were sent.",
    "batches_in_total": "Record batches that were produced.",
    "records_in_total": "Records that were produced, and ends of transactions.",
    "bytes_in_total": "Bytes of record batches that were produced.",
    "bytes_out_total": "Bytes of record batches that were fetched.",
    "produce_errors_total": "Batches that were refused, for whatever reason.",
    "fetch_errors_total": "Partitions of fetches that got an error in their answer.",
    "fetch_sessions_evicted_total": "Fetch sessions that made room for others.",
    "cold_bytes_out_total": "Bytes of record batches that were read from tables.",
    "cold_cache_hits_total": "Chunks of tables that were found in memory.",
    "cold_cache_misses_total": "Chunks of tables that were read and made anew.",
    "carried_bytes_total": "Bytes written to replace segments that stuck topics held.",
    "restarts_total": "How often `lakelog up` started it again after it had ended.",
    "rounds_total": "Compaction rounds that were run.",
    "rounds_ms_total": "Milliseconds that all compaction rounds took.",
    "rounds_write_ms_total": "Milliseconds in which rounds wrote Parquet files.",
    "rounds_commit_ms_total": "Milliseconds in which rounds committed to tables.",
    "rows_total": "Rows that were committed to tables.",
    "log_bytes_total": "Bytes of log that were compacted.",
    "file_bytes_total": "Bytes of Parquet files that were committed.",
    "files_total": "Parquet files that were committed.",
    "commits_total": "Commits to tables.",
    "merges_total": "Merges of small files into large ones that were committed.",
    "merges_failed_total": "Merges that came to nothing, and are tried again.",
    "merged_files_total": "Files that merges replaced.",
    "merged_bytes_total": "Bytes of the files that merges replaced.",
    "merge_file_bytes_total": "Bytes of Parquet files that merges wrote.",
    "cleans_total": "Key compactions of partitions that were committed.",
    "cleans_failed_total": "Key compactions that came to nothing, tried again.",
    "cleaned_rows_total": "Rows that key compaction took out of tables.",
    "cleaned_bytes_total": "Bytes of the files that key compaction replaced.",
    "clean_file_bytes_total": "Bytes of Parquet files that key compaction wrote.",
    "owner_waits_total": "Attempts of owners to change a table that were waited for.",
    "rounds_failed_total": "Compaction rounds that failed as a whole.",
}
"""What the counters count; one that is not here is explained by its name."""
