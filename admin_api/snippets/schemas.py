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


class SnippetList(BaseModel):
    topic_name: str = Field(examples=["orders"])
    location: str
    data: list[Snippet]
