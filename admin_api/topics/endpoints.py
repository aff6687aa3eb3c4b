"""List, create, get, grow and delete topics."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from admin_api.access.audit import OutcomeDep
from admin_api.access.guards import OPERATOR
from admin_api.configs import owners
from admin_api.configs.owners import broker_owner
from admin_api.dependencies import ClusterDep, KafkaDep, TopicNameDep
from admin_api.long_lists import written
from admin_api.paging import PageDep, cut
from admin_api.topics.schemas import (
    CreateTopic,
    Topic,
    TopicList,
    UpdateTopic,
    of_description,
    of_metadata,
    proposed,
)

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Topic"])

OperationsQuery = Annotated[
    bool,
    Query(
        alias="include_authorized_operations",
        description="Whether to say what the caller may do with the topic.",
        examples=[True],
    ),
]


@router.get("", response_model=TopicList, summary="List topics")
async def list_topics(
    cluster: ClusterDep,
    kafka: KafkaDep,
    page: PageDep,
    operations: OperationsQuery = False,
) -> Response:
    """All topics, sorted by name; or a page of them."""
    found = await kafka.topics()
    chosen = cut(found, page)
    wanted = chosen.keys if operations else ()
    described = await kafka.describe_topics(wanted, operations=True, missing_ok=True)

    def listed() -> TopicList:
        own = cluster.place, cluster.id
        return TopicList(
            metadata=cluster.place.listed("topics", chosen.following),
            data=[of_description(*own, one) for one in described]
            if operations
            else [of_metadata(*own, name, found[name]) for name in chosen.keys],
        )

    return await written(listed)


@router.post(
    "",
    dependencies=[OPERATOR],
    status_code=201,
    summary="Create a topic",
    responses={200: {"model": Topic, "description": "It was only validated."}},
)
async def create_topic(
    response: Response,
    cluster: ClusterDep,
    body: CreateTopic,
    kafka: KafkaDep,
    outcome: OutcomeDep,
) -> Topic:
    """Create a topic, or with `validate_only` ask whether it could be."""
    outcome.is_dry_run = bool(body.validate_only)
    await kafka.create_topic(body.wanted(), bool(body.validate_only))
    if body.validate_only:
        response.status_code = 200
        found = await owners.describe(
            kafka, broker_owner(cluster, cluster.controller_id)
        )
        return proposed(cluster.place, cluster.id, body, found)
    [found] = await kafka.describe_topics([body.topic_name])
    topic = of_description(cluster.place, cluster.id, found)
    response.headers["Location"] = topic.metadata.self
    return topic


@router.get("/{topic_name}", summary="Get a topic")
async def get_topic(
    cluster: ClusterDep,
    name: TopicNameDep,
    kafka: KafkaDep,
    operations: OperationsQuery = False,
) -> Topic:
    """One topic."""
    [found] = await kafka.describe_topics([name], operations)
    return of_description(cluster.place, cluster.id, found)


@router.patch(
    "/{topic_name}", dependencies=[OPERATOR], summary="Add partitions to a topic"
)
async def update_topic(
    cluster: ClusterDep, name: TopicNameDep, body: UpdateTopic, kafka: KafkaDep
) -> Topic:
    """Raise the number of partitions; the topic as it is then."""
    await kafka.create_partitions(name, body.partitions_count)
    [found] = await kafka.describe_topics([name])
    return of_description(cluster.place, cluster.id, found)


@router.delete(
    "/{topic_name}", dependencies=[OPERATOR], status_code=204, summary="Delete a topic"
)
async def delete_topic(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep
) -> None:
    """Delete a topic and what is in it."""
    await kafka.delete_topic(name)
