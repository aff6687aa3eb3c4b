"""What was committed to a table, by whom and when."""

from fastapi import APIRouter

from admin_api.commits.history import History, history
from admin_api.commits.schemas import CommitList
from admin_api.dependencies import BaseDep, LakeDep, TopicNameDep
from admin_api.lake import Lake
from admin_api.paging import SHORT_DEFAULT, ShortPageDep, following, number_of
from admin_api.resources import CollectionMetadata

router = APIRouter(prefix="/v1/tables/{topic_name}", tags=["Tables"])


@router.get("/commits", summary="List commits")
async def list_commits(
    base: BaseDep, name: TopicNameDep, lake: LakeDep, page: ShortPageDep
) -> CommitList:
    """The commits to a table, the newest first, also those of other writers.

    404 for a topic whose table is not there yet. Entries that left the Delta log are
    not listed.
    """
    below = None if page.after is None else number_of(page.after)
    size = page.size or SHORT_DEFAULT
    found = await lake.threads.run(_history, lake, name, below, size)
    url = f"{base}/v1/tables/{name}/commits"
    more = None if found.last is None else following(str(found.last), size)
    return CommitList(
        metadata=CollectionMetadata(self=url, next=f"{url}?{more}" if more else None),
        data=found.commits,
    )


def _history(lake: Lake, name: str, below: int | None, size: int) -> History:
    return history(lake.snapshot(lake.topic(name)), below, size)
