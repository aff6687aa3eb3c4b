"""Who is connected."""

from fastapi import APIRouter

from admin_api.connections.schemas import Connection, ConnectionList
from admin_api.dependencies import BaseDep, InternalDep
from admin_api.paging import PageDep, cut
from admin_api.resources import CollectionMetadata

router = APIRouter(prefix="/v1", tags=["Connections"])


@router.get("/connections", summary="List connections")
async def list_connections(
    base: BaseDep, internal: InternalDep, page: PageDep
) -> ConnectionList:
    """The connections of Kafka clients to the broker, sorted by address.

    The plane's own are among them: it is a Kafka client too.
    """
    rows = await internal.rows("connections", Connection.model_fields)
    found = {row["address"]: row for row in rows}
    chosen = cut(found, page)
    url = f"{base}/v1/connections"
    following = f"{url}?{chosen.following}" if chosen.following else None
    return ConnectionList(
        metadata=CollectionMetadata(self=url, next=following),
        data=[Connection(**found[address]) for address in chosen.keys],
    )
