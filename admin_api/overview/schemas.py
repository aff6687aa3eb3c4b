"""How all parts are, as ``/v1`` shows it."""

from enum import StrEnum

from pydantic import BaseModel, Field

from admin_api.fields import (
    TIME_MS,
    FreeBytesField,
    TotalBytesField,
)


class Status(StrEnum):
    """HEALTHY; DEGRADED: clients come, and something is not well; DOWN: they cannot,
    or not all that they may."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    DOWN = "DOWN"


class BrokerHealth(BaseModel):
    """The broker; null where nobody has said it within ten seconds."""

    answers: bool = Field(description="Whether it answered this very request.")
    state: str | None = Field(
        description="`starting`, `running` or `stopping`.", examples=["running"]
    )
    pid: int | None = Field(description="The id of its process.", examples=[4711])
    started_ms: int | None = Field(
        description="When it began, milliseconds since 1970.", examples=[TIME_MS]
    )
    topics: int | None = Field(description="Topics that exist.", examples=[12])
    partitions: int | None = Field(description="Partitions that exist.", examples=[48])
    connections: int | None = Field(
        description="Connections of Kafka clients that are open.", examples=[7]
    )
    wal_segments: int | None = Field(
        description="Segments of its write-ahead log.", examples=[3]
    )
    wal_bytes: int | None = Field(description="Bytes of these.", examples=[201326592])


class CompactorHealth(BaseModel):
    """The compactor, as it said within ten seconds."""

    state: str = Field(description="What it does now.", examples=["running"])
    pid: int = Field(description="The id of its process.", examples=[4712])
    pending_bytes: int = Field(
        description="Bytes of log that are not in tables yet.", examples=[1048576]
    )
    oldest_pending_ms: int = Field(
        description="Age of the oldest of them.", examples=[1500]
    )
    stuck: int = Field(
        description="Topics or partitions that do not go on.", examples=[0]
    )
    log_bytes_total: int = Field(
        description="Bytes of log that it compacted since it started.",
        examples=[8589934592],
    )
    file_bytes_total: int = Field(
        description="What became of them: bytes of Parquet files.",
        examples=[2147483648],
    )


class DiskHealth(BaseModel):
    """The file system of the data directory."""

    data_dir: str = Field(
        description="The data directory.", examples=["/var/lib/lakelog"]
    )
    total_bytes: TotalBytesField
    free_bytes: FreeBytesField


class TablesDiskHealth(BaseModel):
    """The file system of tables that lie outside of the data directory."""

    warehouse: str = Field(
        description="The directory of the tables.", examples=["/srv/lake/tables"]
    )
    total_bytes: TotalBytesField
    free_bytes: FreeBytesField


class Health(BaseModel):
    """How all parts are, with reasons in sentences."""

    status: Status = Field(description="All of it in a word.")
    reasons: list[str] = Field(
        description="Why clients cannot come.",
        examples=[["nothing can be written: the disk is full"]],
    )
    warnings: list[str] = Field(
        description="What else is not well.",
        examples=[["no compactor is running: records wait in the log"]],
    )
    broker: BrokerHealth = Field(
        description="The broker, and what it said of itself last."
    )
    compactor: CompactorHealth | None = Field(description="null: none is running.")
    disk: DiskHealth | None = Field(description="null: it cannot be looked at.")
    tables_disk: TablesDiskHealth | None = Field(
        description="null: tables lie in the data directory, or their disk cannot be "
        "looked at."
    )
