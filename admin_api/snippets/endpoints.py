"""How to open a topic's table."""

import asyncio

from fastapi import APIRouter

from admin_api.dependencies import LakeDep, TopicNameDep
from admin_api.lake import Lake
from admin_api.snippets.schemas import SnippetList
from admin_api.snippets.templates import snippets

router = APIRouter(prefix="/v1/tables/{topic_name}", tags=["Tables"])


@router.get("/snippets", summary="Get code that opens the table")
async def list_snippets(name: TopicNameDep, lake: LakeDep) -> SnippetList:
    """Code for Spark (SQL and PySpark), deltalake, Polars and DuckDB.

    The location is that on the broker's machine; 404 for a topic whose table is not
    there yet.
    """
    path = await asyncio.to_thread(_location, lake, name)
    return SnippetList(topic_name=name, location=path, data=snippets(path))


def _location(lake: Lake, name: str) -> str:
    return lake.snapshot(lake.topic(name)).path
