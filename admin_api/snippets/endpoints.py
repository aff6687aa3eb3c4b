"""How to open a topic's table."""

from fastapi import APIRouter

from admin_api.dependencies import LakeDep, TopicNameDep
from admin_api.lake import Lake
from admin_api.resources import printable
from admin_api.snippets.schemas import SnippetList
from admin_api.snippets.templates import snippets
from lakehouse.log.delta_log import Snapshot

router = APIRouter(prefix="/v1/tables/{topic_name}", tags=["Tables"])


@router.get("/snippets", summary="Get code that opens the table")
async def list_snippets(name: TopicNameDep, lake: LakeDep) -> SnippetList:
    """Code for Spark (SQL and PySpark), deltalake, Polars and DuckDB.

    It is the code for what the table asks of readers now, as deletion vectors, and says
    so. The location is that on the broker's machine; 404 for a topic whose table is not
    there yet.
    """
    found = await lake.threads.run(_table, lake, name)
    features = sorted(map(printable, found.protocol.reader_features))
    return SnippetList(
        topic_name=name,
        location=found.path,
        reader_features=features,
        data=snippets(found.path, features),
    )


def _table(lake: Lake, name: str) -> Snapshot:
    return lake.snapshot(lake.topic(name))
