"""Versions of a table against offsets, as ``/v1`` shows them."""

from pydantic import BaseModel, Field


class PartitionEnd(BaseModel):
    partition_id: int
    end_offset: int = Field(description="The first offset that is not in the version.")


class TableVersion(BaseModel):
    """A version of a table, and how far its partitions reach in it."""

    topic_name: str = Field(examples=["orders"])
    version: int = Field(description="For `VERSION AS OF`.", examples=[17])
    timestamp_ms: int | None = Field(
        description="When it was committed, for `TIMESTAMP AS OF`; null: its entry "
        "has left the log."
    )
    exact: bool = Field(
        description="Whether this very version brought the offset; false: an older one "
        "did, which the log does not tell any more."
    )
    rows: int | None = Field(description="null if a file does not say its own.")
    files: int
    ends: list[PartitionEnd]
