"""Commits to a table, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.resources import CollectionMetadata


class CommitRange(BaseModel):
    """Offsets [first_offset, end_offset) of a partition that a commit added."""

    partition_id: int
    first_offset: int
    end_offset: int
    records: int | None = Field(
        description="Records that the log held in it; null: the commit does not say."
    )


class Commit(BaseModel):
    """One entry of the Delta log."""

    version: int = Field(examples=[17])
    timestamp_ms: int | None = Field(
        description="Since 1970, as DESCRIBE HISTORY and time travel take it."
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
    engine: str | None = Field(description="The program, as it calls itself.")
    ranges: list[CommitRange]
    log_starts: dict[int, int] = Field(
        description="Partition -> where its log starts, of a commit by retention."
    )
    files_added: int
    bytes_added: int
    rows_added: int | None = Field(description="null if a file does not say its own.")
    files_removed: int
    duration_ms: int | None = Field(description="null: its writer does not say.")
    problem: str | None = Field(description="Why the entry cannot be read, if so.")


class CommitList(BaseModel):
    metadata: CollectionMetadata
    data: list[Commit]
