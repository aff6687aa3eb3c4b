"""One frozen object with every setting.

A mistyped setting that is silently ignored is found in production. So all keys are
known, an unknown one is refused and the nearest known one is named, and a value is
validated before anything starts. Where values come from, and by which names:
``configuration/``.

A key is spelled as its reader likes: ``lake.flush.ms``, ``lake.flush_ms`` and
``LAKELOG_LAKE__FLUSH_MS`` are one key, because dots and underscores count alike. The
price is that no two settings may differ in those alone, which a test holds.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from broker.setting_values import (
    INT_MAX,
    LONG_MAX,
    Address,
    Bytes,
    Count,
    FixedAddress,
    Limit,
    Millis,
    Names,
    Policies,
    Retention,
    Warehouses,
)


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WalSettings(_Group):
    """The write-ahead segments."""

    segment_bytes: Bytes = Field(
        default=64 << 20, ge=1 << 20, description="size of a segment"
    )
    hot_bytes: Bytes = Field(
        default=128 << 20, description="recent bytes served from memory"
    )
    keep_ms: Millis = Field(
        default=10_000, description="a sealed segment is released no earlier than this"
    )
    cache_bytes: Bytes = Field(
        default=2 << 30,
        description="segments in tables kept as a cache of disk (none if keep_ms is "
        "0); a batch counts as 4 KiB at least",
    )
    idle_seal_ms: Millis = Field(
        default=1_000,
        description="a quiet segment whose records are in tables is sealed",
    )
    roll_ms: Millis = Field(default=600_000, description="age of a sealed segment")
    sync: Literal["always", "interval"] = Field(
        default="always",
        description="acknowledge after the sync, or after the write and sync now and "
        "then: a power cut loses what was acknowledged since",
    )
    sync_interval_ms: Annotated[int, Field(ge=1)] = Field(
        default=100, description="how often it is synced, with wal.sync=interval"
    )
    spare_segments: Count = Field(
        default=8, description="segments written out ahead of need, while it is quiet"
    )
    free_segments_max: Count = Field(
        default=16, description="released segments kept for reuse"
    )
    low_space_bytes: Bytes = Field(
        default=256 << 20,
        description="with less free on the disk (at most 5 % of it) writes are refused",
    )
    waiting_bytes_max: Bytes = Field(
        default=64 << 20,
        description="batches that may wait for a disk that does not answer after "
        "their producers were told so",
    )


class LakeSettings(_Group):
    """The tables and the way to them."""

    warehouse: Path | None = Field(
        default=None,
        description="where tables lie, as on another disk; data_dir/tables if not set",
    )
    warehouses: Warehouses = Field(
        default="",
        description="further ones, NAME=PATH with commas between them: the table of a "
        "topic lies in the one that its lake.warehouse names",
    )
    flush_ms: Millis = Field(
        default=2_500, description="age at which what flows goes to tables"
    )
    flush_max_ms: Millis = Field(
        default=60_000, description="age at which what trickles does, at the latest"
    )
    flush_bytes: Bytes = Field(
        default=64 << 20, description="bytes that go to tables at once"
    )
    cold_cache_bytes: Bytes = Field(
        default=64 << 20, description="rebuilt batches kept in memory"
    )
    follow_ms: Annotated[int, Field(ge=10, le=LONG_MAX)] = Field(
        default=250, description="how often tables are looked at"
    )
    read_threads: Count = Field(default=2, description="threads that read tables")
    spark_python: Path | None = Field(
        default=None,
        description="the Python of Spark's workers, at this path on each of their "
        "machines; the compactor's own if not set",
    )
    merge: bool = Field(default=True, description="small files become large ones")
    clean: bool = Field(
        default=True, description="compacted topics keep the last record of each key"
    )
    target_file_bytes: Bytes = Field(
        default=128 << 20, ge=1 << 20, description="of a merged file"
    )
    merge_bytes_per_s: Bytes = Field(
        default=32 << 20, description="merges and key compaction read no faster"
    )
    retention_check_ms: Annotated[int, Field(ge=100, le=LONG_MAX)] = Field(
        default=30_000, description="how often retention is applied"
    )
    owner_wait_ms: Millis = Field(
        default=30_000,
        description="nothing is committed to a table whose owner is seen to change it, "
        "for so long at most; 0: nobody is waited for",
    )
    file_delete_delay_ms: Millis = Field(
        default=60_000,
        description="files that no table names stay this long; with little space on "
        "the disk those that left one, too",
    )
    table_delete_delay_ms: Millis = Field(
        default=60_000,
        description="after this the table of a deleted topic is moved aside",
    )
    deleted_table_retention_ms: Millis = Field(
        default=604_800_000,
        description="after this it is deleted; with little space on the disk at once",
    )

    @property
    def further(self) -> dict[str, Path]:
        """Where each of the further warehouses is, by name."""
        pairs = (one.partition("=") for one in self.warehouses.split(",") if one)
        return {name: Path(place) for name, _, place in pairs}

    @property
    def flush_bound_ms(self) -> int:
        """The default of topics' ``lake.flush.max.ms``: what trickles never goes sooner
        than what flows."""
        return max(self.flush_ms, self.flush_max_ms)


class BrokerSettings(_Group):
    """Defaults of topics, with Kafka's names."""

    num_partitions: Count = Field(default=1, description="partitions of a new topic")
    partitions_max: Count = Field(
        default=50_000, description="partitions of all topics together"
    )
    auto_create_topics: bool = Field(
        default=True, description="Metadata creates topics"
    )
    message_max_bytes: Bytes = Field(
        default=1_048_588, le=INT_MAX, description="largest batch"
    )
    fetch_max_bytes: Bytes = Field(
        default=55 << 20, description="largest fetch response"
    )
    max_incremental_fetch_session_cache_slots: Annotated[int, Field(ge=0)] = Field(
        default=1_000, description="fetch sessions; 0: nobody gets one"
    )
    fetch_sessions_bytes_max: Bytes = Field(
        default=64 << 20,
        description="about what all fetch sessions take; 1.5 KiB for each partition",
    )
    producer_id_expiration_ms: Millis = Field(
        default=86_400_000, description="an idle producer's sequences are forgotten"
    )


class TopicSettings(_Group):
    """What holds for topics that do not say it themselves."""

    retention_ms: Retention = Field(
        default=604_800_000, description="how long a record is kept; -1: for ever"
    )
    retention_bytes: Limit = Field(
        default=-1, description="bytes that a partition keeps; -1: no limit"
    )
    cleanup_policy: Policies = Field(
        default="delete", description="what becomes of old records: delete, compact"
    )
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime", description="whose time a record bears"
    )
    message_timestamp_before_max_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=2**63 - 1, description="how old a producer's timestamp may be"
    )
    message_timestamp_after_max_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        default=3_600_000, description="how far ahead a producer's timestamp may be"
    )

    @property
    def configs(self) -> dict[str, str]:
        """As configurations of a topic, by Kafka's names of these."""
        return {
            name.replace("_", "."): str(getattr(self, name))
            for name in type(self).model_fields
        }


class NetworkSettings(_Group):
    """What a peer may cost."""

    frame_bytes_max: Bytes = Field(
        default=100 << 20, ge=1024, description="largest request"
    )
    inflight_bytes_max: Bytes = Field(
        default=128 << 20,
        description="bytes of open Produces, and of other open requests",
    )
    pipeline_max: Count = Field(
        default=256, description="requests a connection may have open"
    )
    unsent_bytes_max: Bytes = Field(
        default=64 << 10,
        description="answers to a peer that does not read, before we wait",
    )
    fetched_bytes_max: Bytes = Field(
        default=128 << 20,
        description="records read from disk or tables for answers not sent yet",
    )
    connections_max: Count = Field(default=4_096, description="open connections")
    connections_per_host_max: Count = Field(
        default=2_048, description="open connections of one peer address"
    )
    idle_ms: Annotated[int, Field(ge=1, le=LONG_MAX)] = Field(
        default=600_000, description="a silent connection ends"
    )
    half_frame_ms: Millis = Field(
        default=30_000,
        description="a request that is not whole by then is given up; a large one "
        "when so long less than 16 KiB of it have come",
    )
    pooled_bytes_max: Bytes = Field(
        default=64 << 20, description="receive buffers kept warm for reuse"
    )
    drain_ms: Millis = Field(
        default=3_000, description="open requests may finish at a stop"
    )


class GroupSettings(_Group):
    """Consumer groups, with Kafka's defaults."""

    initial_rebalance_delay_ms: Millis = Field(
        default=3_000, description="wait for more members before the first generation"
    )
    min_session_timeout_ms: Millis = Field(
        default=6_000, description="shortest session"
    )
    max_session_timeout_ms: Millis = Field(
        default=1_800_000, description="longest session"
    )
    max_size: Count = Field(default=100_000, description="members of a group")
    offsets_retention_ms: Millis = Field(
        default=604_800_000, description="offsets of an empty group are kept this long"
    )
    offsets_retention_check_ms: Annotated[int, Field(ge=100, le=LONG_MAX)] = Field(
        default=600_000, description="how often old offsets are looked for"
    )
    offset_metadata_max_bytes: Bytes = Field(
        default=4_096, description="longest metadata of a committed offset"
    )
    memory_bytes_max: Bytes = Field(
        default=256 << 20,
        description="about what all groups, members and committed offsets may take "
        "together",
    )


class TransactionSettings(_Group):
    """Transactions, with Kafka's defaults."""

    max_timeout_ms: Millis = Field(
        default=900_000, description="longest transaction that a producer may ask for"
    )
    id_expiration_ms: Millis = Field(
        default=604_800_000, description="an idle transactional id is kept this long"
    )
    ids_max: Count = Field(
        default=100_000, description="transactional ids that are kept"
    )


class TelemetrySettings(_Group):
    """What clients push of their own metrics (KIP-714)."""

    enabled: bool = Field(
        default=False,
        description="clients are asked for their metrics, and all of them send some",
    )
    bytes_max: Bytes = Field(
        default=1 << 20, ge=1024, description="largest push, compressed or not"
    )


class LogSettings(_Group):
    """What the program says about itself, on standard error."""

    format: Literal["text", "json"] = Field(
        default="text", description="for people or tools"
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least that is said"
    )


class MetricsSettings(_Group):
    """What the admin plane shows to Prometheus."""

    per_topic: bool = Field(
        default=True,
        description="whether /metrics has series of topics and groups, unless it is "
        "asked otherwise",
    )


class AdminTlsSettings(_Group):
    """The certificate of the admin plane."""

    certificate: Path | None = Field(
        default=None, description="PEM file: the admin plane speaks TLS with it"
    )
    key: Path | None = Field(
        default=None,
        description="PEM file of its private key; the certificate's file if not set",
    )


class InternalSettings(_Group):
    """Where the parts answer the admin plane."""

    broker: FixedAddress | None = Field(
        default=None,
        description="TCP address at which the broker answers the admin plane, to who "
        "proves to have the secret; a socket in data_dir/run if not set",
    )
    compactor: FixedAddress | None = Field(
        default=None, description="the same of the compactor"
    )
    secret: Path | None = Field(
        default=None,
        description="file of the secret for these addresses; one is made in "
        "data_dir/run if not set",
    )


class Settings(_Group):
    """Everything a user may tune."""

    data_dir: Path = Field(
        default=Path("lakelog-data"), description="where all data lives"
    )
    listener: Address = Field(
        default="127.0.0.1:9092", description="address Kafka listens on"
    )
    advertised: Address | None = Field(
        default=None, description="address told to clients; the listener's if not set"
    )
    admin: Address = Field(
        default="127.0.0.1:8082", description="address of the admin plane"
    )
    admin_hosts: Names = Field(
        default="",
        description="names beside localhost, with commas between them, by which it may "
        "be asked while no token was made",
    )
    admin_tls: AdminTlsSettings = AdminTlsSettings()
    internal: InternalSettings = InternalSettings()
    node_id: int = Field(
        default=1, ge=0, le=INT_MAX, description="this broker's number"
    )
    wal: WalSettings = WalSettings()
    lake: LakeSettings = LakeSettings()
    broker: BrokerSettings = BrokerSettings()
    topics: TopicSettings = TopicSettings()
    network: NetworkSettings = NetworkSettings()
    groups: GroupSettings = GroupSettings()
    transactions: TransactionSettings = TransactionSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()


def keys() -> tuple[str, ...]:
    """Every key there is, in its canonical spelling, such as ``lake.flush_ms``."""
    return tuple(key for key, _, _ in _leaves(Settings()))


def schema() -> list[dict[str, Any]]:
    """What can be set: a row for each key with its type, default and meaning."""
    types = {
        f"{prefix}{name}": _type_name(str(field.annotation))
        for prefix, group in _groups(Settings())
        for name, field in type(group).model_fields.items()
    }
    return [
        {"key": key, "type": types[key], "default": value, "description": text}
        for key, value, text in _leaves(Settings())
    ]


def describe(settings: Settings) -> dict[str, Any]:
    """What is set: each key's value."""
    return {key: value for key, value, _ in _leaves(settings)}


def _groups(settings: Settings) -> Iterator[tuple[str, BaseModel]]:
    yield "", settings
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield f"{name}.", value


def _leaves(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Each (key, value, description), in the order in which they stand above."""
    for prefix, group in _groups(settings):
        for name, field in type(group).model_fields.items():
            value = getattr(group, name)
            if not isinstance(value, BaseModel):
                yield prefix + name, value, field.description or ""


def _type_name(annotation: str) -> str:
    """``int``, ``bool``, ``path`` ...: what a person would call the type."""
    for name in ("bool", "int", "Path", "Literal"):
        if name in annotation:
            return {"Path": "path", "Literal": "choice"}.get(name, name)
    return "string"
