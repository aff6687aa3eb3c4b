"""The tables beside the topics: where they are, what is in them, how far they are."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from admin_api.dependencies import (
    BaseDep,
    FactsDep,
    InternalDep,
    KafkaDep,
    LakeDep,
    StatusDep,
    TopicNameDep,
)
from admin_api.long_lists import written
from admin_api.paging import ShortPageDep, cut
from admin_api.problems import Problem
from admin_api.resources import CollectionMetadata
from admin_api.tables.produced import produced
from admin_api.tables.schemas import Table, TableList
from admin_api.tables.survey import Sources, summary, survey, table

router = APIRouter(prefix="/v1/tables", tags=["Tables"])


def _sources(
    lake: LakeDep, facts: FactsDep, kafka: KafkaDep, status: StatusDep
) -> Sources:
    return lake, facts, kafka, status


SourcesDep = Annotated[Sources, Depends(_sources)]


@router.get("", response_model=TableList, summary="List tables")
async def list_tables(
    base: BaseDep, sources: SourcesDep, lake: LakeDep, page: ShortPageDep
) -> Response:
    """The tables of all topics by name, a page at a time: each one's log is read.

    While the broker does not answer, `lag_records` is null and `broker_problem` says
    why; what the Delta log says is shown all the same.
    """
    chosen = await asyncio.to_thread(lambda: cut(lake.names(), page))
    found = await survey(sources, chosen.keys)
    url = f"{base}/v1/tables"
    following = f"{url}?{chosen.following}" if chosen.following else None
    return await written(
        lambda: TableList(
            metadata=CollectionMetadata(self=url, next=following),
            data=[summary(base, one) for one in found],
        )
    )


@router.get("/{topic_name}", summary="Get a table")
async def get_table(
    base: BaseDep,
    name: TopicNameDep,
    sources: SourcesDep,
    internal: InternalDep,
    status: StatusDep,
) -> Table:
    """One table with its schema and its partitions.

    A topic without records has no table yet: `version` is null and `problem` as well.
    While the broker does not answer, `last_stable_offset`, `high_watermark` and
    `lag_records` are null and `broker_problem` says why. `produced` counts from the
    broker's start, `bytes` and `rows` are all that the table has.
    """
    found = await survey(sources, [name])
    if not found:
        raise Problem(40403, f"There is no topic {name}.")
    shown = await asyncio.to_thread(table, base, found[0])
    if found[0].broker_problem is None:
        shown.produced = await produced(internal, status, name)
    return shown
