"""Versions of a table against offsets, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.fields import (
    TIME_MS,
    FilesField,
    PartitionIdField,
    TableNameField,
)


class PartitionEnd(BaseModel):
    """How far a partition reaches in a version."""

    partition_id: PartitionIdField
    end_offset: int = Field(
        description="The first offset that is not in the version.", examples=[1500]
    )


class TableVersion(BaseModel):
    """A version of a table, and how far its partitions reach in it."""

    topic_name: TableNameField
    version: int = Field(description="For `VERSION AS OF`.", examples=[17])
    timestamp_ms: int | None = Field(
        description="When it was committed, for `TIMESTAMP AS OF`; null: its entry "
        "has left the log.",
        examples=[TIME_MS],
    )
    exact: bool = Field(
        description="Whether this very version brought the offset; false: an older one "
        "did, which the log does not tell any more."
    )
    rows: int | None = Field(
        description="Its rows; null if a file does not say its own.", examples=[1200]
    )
    files: FilesField
    ends: list[PartitionEnd] = Field(
        description="How far each partition reaches, by number."
    )
