"""Pieces of code that open a table."""

from pydantic import BaseModel, Field

from admin_api.fields import (
    TableNameField,
)


class Snippet(BaseModel):
    """Code to be copied as it is."""

    engine: str = Field(description="What runs it.", examples=["pyspark"])
    language: str = Field(description="Its language.", examples=["python"])
    requires: str = Field(
        description="What has to be installed.", examples=["delta-spark"]
    )
    code: str = Field(
        description="The code.",
        examples=[
            "spark.read.format('delta').load('/var/lib/lakelog/tables/orders').show()"
        ],
    )
    note: str | None = Field(
        description="What to know of this engine and what the table asks of "
        "readers; null: nothing.",
        examples=["The table has deletion vectors."],
    )


class SnippetList(BaseModel):
    """Code that opens a table."""

    topic_name: TableNameField
    location: str = Field(
        description="The directory of the table.",
        examples=["/var/lib/lakelog/tables/orders"],
    )
    reader_features: list[str] = Field(
        description="Delta's table features that a reader has to know now.",
        examples=[["deletionVectors"]],
    )
    data: list[Snippet] = Field(description="One for each engine.")
