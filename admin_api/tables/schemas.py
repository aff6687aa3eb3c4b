"""Tables, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.resources import CollectionMetadata, Metadata, Shown
from admin_api.tables.columns import Column

UNKNOWN = "null while the broker does not answer"


class Compaction(BaseModel):
    """What the compactor said of a table, at most ten seconds ago."""

    stuck: bool = Field(description="Nothing is committed although records wait.")
    error: Shown | None = Field(
        description="Why it failed last, while that is not mended.",
        examples=["its table takes no commit: somebody else wrote to it"],
    )
    error_since_ms: int | None = Field(description="Since when, since 1970.")
    pending_bytes: int = Field(description="Bytes of log that wait for the table.")
    lag_ms: int = Field(description="Age of the oldest record that waits.")


class TableSummary(BaseModel):
    """A topic's table in a few numbers."""

    metadata: Metadata
    topic_name: str = Field(examples=["orders"])
    topic_id: str = Field(
        description="32 hex digits; another topic of the same name has another.",
        examples=["0123456789abcdef0123456789abcdef"],
    )
    location: str = Field(
        description="The directory of the table, on the broker's machine.",
        examples=["/var/lib/lakelog/tables/orders"],
    )
    version: int | None = Field(
        description="Delta version; null: no table yet, or none that can be read.",
        examples=[17],
    )
    rows: int | None = Field(description="null if a file does not say its own.")
    files: int
    bytes: int = Field(description="Bytes of its Parquet files.")
    small_files: int = Field(description="Files of less than 16 MiB.")
    lag_records: int | None = Field(
        description="Offsets up to the last stable one that are not in the table; "
        f"{UNKNOWN} or the table cannot be read."
    )
    lag_seconds: float | None = Field(
        description="Age of the oldest record that waits; null: nobody said it."
    )
    compaction: Compaction | None = Field(
        description="null: no compactor has said anything within ten seconds."
    )
    problem: Shown | None = Field(
        description="What is wrong with the table, in a sentence."
    )
    broker_problem: str | None = Field(
        description="Why offsets of the log are null: the broker does not answer."
    )


class TablePartition(BaseModel):
    """Offsets of one partition; ends are exclusive."""

    partition_id: int
    log_start: int = Field(description="The first offset that can be read.")
    table_end: int | None = Field(
        description="The first offset that is not in the table; null: not readable."
    )
    last_stable_offset: int | None = Field(description=f"{UNKNOWN}.")
    high_watermark: int | None = Field(description=f"{UNKNOWN}.")
    lag_records: int | None
    lag_seconds: float | None = Field(
        description="Age of the oldest record that waits; null: nobody said it."
    )
    rows: int | None
    files: int
    bytes: int


class TableProtocol(BaseModel):
    """What a reader and a writer of the table must know."""

    min_reader_version: int = Field(examples=[1])
    min_writer_version: int = Field(examples=[2])
    reader_features: list[Shown]


class Table(TableSummary):
    """A topic's table."""

    protocol: TableProtocol | None
    columns: list[Column]
    properties: dict[Shown, Shown] = Field(description="Delta's and Lakelog's own.")
    partitions: list[TablePartition]


class TableList(BaseModel):
    metadata: CollectionMetadata
    data: list[TableSummary]
