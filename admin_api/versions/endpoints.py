"""Offset to table version and back, for time travel."""

from typing import Annotated

from fastapi import APIRouter, Query

from admin_api.dependencies import ID_MAX, LakeDep, TopicNameDep
from admin_api.integers import DIGITS
from admin_api.versions.lookup import Wanted, look_up
from admin_api.versions.schemas import TableVersion

router = APIRouter(prefix="/v1/tables/{topic_name}", tags=["Tables"])
OFFSET_MAX = 2**63 - 1


@router.get("/versions", summary="Find a version")
async def find_version(
    name: TopicNameDep,
    lake: LakeDep,
    partition: Annotated[
        int | None,
        Query(
            ge=0,
            le=ID_MAX,
            description="The partition that `offset` is in.",
            examples=[0],
        ),
        DIGITS,
    ] = None,
    offset: Annotated[
        int | None,
        Query(
            ge=0,
            le=OFFSET_MAX,
            description="An offset: which version brought it?",
            examples=[0],
        ),
        DIGITS,
    ] = None,
    version: Annotated[
        int | None,
        Query(
            ge=0,
            le=OFFSET_MAX,
            description="A Delta version: how far does it reach?",
            examples=[1],
        ),
        DIGITS,
    ] = None,
) -> TableVersion:
    """The first version of the table that holds an offset, or a version by its number.

    Say either `partition` and `offset`, or `version`. What retention removed since can
    be read in an old version only while its files are there.
    """
    wanted = Wanted(version, partition, offset)
    wanted.check()
    return await lake.threads.run(look_up, lake, name, wanted)
