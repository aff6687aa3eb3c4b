"""Pieces of code that open a table."""

from pydantic import BaseModel, Field


class Snippet(BaseModel):
    """Code to be copied as it is."""

    engine: str = Field(examples=["pyspark"])
    language: str = Field(examples=["python"])
    requires: str = Field(
        description="What has to be installed.", examples=["delta-spark"]
    )
    code: str
    note: str | None = Field(
        description="What to know of this engine and what the table asks of readers."
    )


class SnippetList(BaseModel):
    topic_name: str = Field(examples=["orders"])
    location: str
    reader_features: list[str] = Field(
        description="Delta's table features that a reader has to know now.",
        examples=[["deletionVectors"]],
    )
    data: list[Snippet]
