"""Tables, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.fields import TIME_MS, FilesField, PartitionIdField, TableNameField
from admin_api.resources import CollectionMetadata, Metadata, Shown
from admin_api.tables.columns import Column

UNKNOWN = "null while the broker does not answer"


class Compaction(BaseModel):
    """What the compactor said of a table, at most ten seconds ago."""

    stuck: bool = Field(description="Nothing is committed although records wait.")
    error: Shown | None = Field(
        description="Why it failed last, or would take no record, while that is not "
        "mended.",
        examples=["its table takes no commit: somebody else wrote to it"],
    )
    error_since_ms: int | None = Field(
        description="Since when it fails, in milliseconds since 1970; null: it "
        "does not.",
        examples=[TIME_MS],
    )
    pending_bytes: int = Field(
        description="Bytes of log that wait for the table; of one that cannot be "
        "read all behind its last known end.",
        examples=[1048576],
    )
    lag_ms: int = Field(
        description="Age of the oldest record that waits.", examples=[1500]
    )


class TableSummary(BaseModel):
    """A topic's table in a few numbers."""

    metadata: Metadata = Field(description="Where the table can be asked for.")
    topic_name: TableNameField
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
    rows: int | None = Field(
        description="Its rows; null if a file does not say its own.", examples=[1200]
    )
    files: FilesField
    bytes: int = Field(description="Bytes of its Parquet files.", examples=[1048576])
    small_files: int = Field(description="Files of less than 16 MiB.", examples=[3])
    lag_records: int | None = Field(
        description="Offsets up to the last stable one that are not in the table; "
        f"{UNKNOWN} or the table cannot be read.",
        examples=[300],
    )
    lag_seconds: float | None = Field(
        description="Age of the oldest record that waits, in seconds; null: nobody "
        "said it.",
        examples=[1.5],
    )
    compaction: Compaction | None = Field(
        description="null: no compactor has said anything within ten seconds."
    )
    problem: Shown | None = Field(
        description="What is wrong with the table, in a sentence; null: nothing.",
        examples=["version 17 of the Delta log is no JSON"],
    )
    remarks: list[Shown] = Field(
        description="What its owner asked for that stops nothing and has a price: rows "
        "that never leave, statements of his that fail; a sentence each.",
        examples=[["no row leaves it: delta.appendOnly is true"]],
    )
    broker_problem: str | None = Field(
        description="Why offsets of the log are null: the broker does not answer; "
        "null: it does.",
        examples=["the broker at 127.0.0.1:9092 does not answer"],
    )


class TablePartition(BaseModel):
    """Offsets of one partition; ends are exclusive."""

    partition_id: PartitionIdField
    log_start: int = Field(
        description="The first offset that can be read.", examples=[0]
    )
    table_end: int | None = Field(
        description="The first offset that is not in the table; null: not readable.",
        examples=[1200],
    )
    last_stable_offset: int | None = Field(
        description="The end of what readers of committed records may read; "
        f"{UNKNOWN}.",
        examples=[1500],
    )
    high_watermark: int | None = Field(
        description=f"The offset that the next record gets; {UNKNOWN}.", examples=[1500]
    )
    lag_records: int | None = Field(
        description="Offsets up to the last stable one that are not in the table; "
        "null: not known.",
        examples=[300],
    )
    lag_seconds: float | None = Field(
        description="Age of the oldest record that waits, in seconds; null: nobody "
        "said it.",
        examples=[1.5],
    )
    rows: int | None = Field(
        description="Its rows; null if a file does not say its own.", examples=[1200]
    )
    files: FilesField
    bytes: int = Field(description="Bytes of its Parquet files.", examples=[1048576])


class TableProtocol(BaseModel):
    """What a reader and a writer of the table must know."""

    min_reader_version: int = Field(
        description="Delta's version that a reader needs.", examples=[1]
    )
    min_writer_version: int = Field(
        description="Delta's version that a writer needs.", examples=[2]
    )
    reader_features: list[Shown] = Field(
        description="Table features that a reader needs.",
        examples=[["deletionVectors"]],
    )


class Produced(BaseModel):
    """What a topic got; batches are counted as they came, compressed or not."""

    records: int = Field(
        description="Records that were produced, those of aborted transactions too, "
        "and one for each end of a transaction in a partition.",
        examples=[1500],
    )
    bytes: int = Field(description="Bytes of their batches.", examples=[2097152])
    since_ms: int = Field(
        description="Since when: the broker began then, in milliseconds since 1970.",
        examples=[TIME_MS],
    )


class Table(TableSummary):
    """A topic's table."""

    protocol: TableProtocol | None = Field(
        description="What a client of Delta must know to open it; null: no table yet."
    )
    columns: list[Column] = Field(description="Its columns, in their order.")
    properties: dict[Shown, Shown] = Field(
        description="Delta's properties of the table and Lakelog's own.",
        examples=[{"delta.minReaderVersion": "1"}],
    )
    partitions: list[TablePartition] = Field(
        description="How far each partition is, by number."
    )
    produced: Produced | None = Field(
        default=None,
        description="What was produced to the topic since the broker began, beside "
        "`bytes`, which are stored; null: the broker does not say it.",
    )


class TableList(BaseModel):
    """The tables of topics."""

    metadata: CollectionMetadata = Field(
        description="Where the list is, and where it goes on."
    )
    data: list[TableSummary] = Field(description="Sorted by topic.")
