"""How all parts are, as ``/v1`` shows it."""

from enum import StrEnum

from pydantic import BaseModel, Field


class Status(StrEnum):
    """HEALTHY; DEGRADED: clients come, and something is not well; DOWN: they cannot,
    or not all that they may."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    DOWN = "DOWN"


class BrokerHealth(BaseModel):
    """The broker; null where nobody has said it within ten seconds."""

    answers: bool = Field(description="Whether it answered this very request.")
    state: str | None = Field(examples=["running"])
    pid: int | None
    started_ms: int | None
    topics: int | None
    partitions: int | None
    connections: int | None
    wal_segments: int | None
    wal_bytes: int | None


class CompactorHealth(BaseModel):
    """The compactor, as it said within ten seconds."""

    state: str
    pid: int
    pending_bytes: int = Field(description="Bytes of log that are not in tables yet.")
    oldest_pending_ms: int = Field(description="Age of the oldest of them.")
    stuck: int = Field(description="Topics or partitions that do not go on.")
    log_bytes_total: int = Field(
        description="Bytes of log that it compacted since it started."
    )
    file_bytes_total: int = Field(
        description="What became of them: bytes of Parquet files."
    )


class DiskHealth(BaseModel):
    """The file system of the data directory."""

    data_dir: str
    total_bytes: int
    free_bytes: int


class TablesDiskHealth(BaseModel):
    """The file system of tables that lie outside of the data directory."""

    warehouse: str
    total_bytes: int
    free_bytes: int


class Health(BaseModel):
    """How all parts are, with reasons in sentences."""

    status: Status
    reasons: list[str] = Field(description="Why clients cannot come.")
    warnings: list[str] = Field(description="What else is not well.")
    broker: BrokerHealth
    compactor: CompactorHealth | None = Field(description="null: none is running.")
    disk: DiskHealth | None = Field(description="null: it cannot be looked at.")
    tables_disk: TablesDiskHealth | None = Field(
        description="null: tables lie in the data directory, or their disk cannot be "
        "looked at."
    )
