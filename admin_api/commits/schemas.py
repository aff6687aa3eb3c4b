"""Commits to a table, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.fields import TIME_MS, PartitionIdField
from admin_api.resources import CollectionMetadata


class CommitRange(BaseModel):
    """Offsets [first_offset, end_offset) of a partition that a commit added."""

    partition_id: PartitionIdField
    first_offset: int = Field(
        description="The first offset that it added.", examples=[1200]
    )
    end_offset: int = Field(
        description="The offset behind the last one that it added.", examples=[1500]
    )
    records: int | None = Field(
        description="Records that the log held in it; null: the commit does not say.",
        examples=[300],
    )


class Commit(BaseModel):
    """One entry of the Delta log."""

    version: int = Field(description="The Delta version that it made.", examples=[17])
    timestamp_ms: int | None = Field(
        description="When, in milliseconds since 1970, as DESCRIBE HISTORY and "
        "time travel take it; null: its entry does not say.",
        examples=[TIME_MS],
    )
    operation: str | None = Field(
        description="As its writer calls it; OPTIMIZE, DELETE and others are owners'.",
        examples=["LAKELOG COMPACT"],
    )
    written_by: str = Field(
        description="`compactor`: a round, or the making of the table; `merge`: few "
        "files in the place of many; `cleaning`: rows left whose keys came again; "
        "`retention`: files left; `erase`: `lakelog erase`; `other`: an owner.",
        examples=["compactor"],
    )
    engine: str | None = Field(
        description="The program that wrote it, as it calls itself; null: it does not.",
        examples=["Lakelog"],
    )
    ranges: list[CommitRange] = Field(
        description="What it added, by partition; empty for a commit that moved no end."
    )
    log_starts: dict[int, int] = Field(
        description="Partition -> where its log starts, of a commit by retention.",
        examples=[{"0": 1200}],
    )
    files_added: int = Field(description="Parquet files that it added.", examples=[2])
    bytes_added: int = Field(description="Their bytes.", examples=[1048576])
    rows_added: int | None = Field(
        description="Rows that it added; null if a file does not say its own.",
        examples=[300],
    )
    files_removed: int = Field(
        description="Parquet files that it took out of the table.", examples=[0]
    )
    duration_ms: int | None = Field(
        description="How long it took; null: its writer does not say.", examples=[12]
    )
    problem: str | None = Field(
        description="Why the entry cannot be read; null: it can.",
        examples=["version 17 of the Delta log is no JSON"],
    )


class CommitList(BaseModel):
    """Commits to a table, the newest first."""

    metadata: CollectionMetadata = Field(
        description="Where the list is, and where it goes on."
    )
    data: list[Commit] = Field(description="One for each entry of the Delta log.")
