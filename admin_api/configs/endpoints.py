"""Configurations of each topic, of each broker and of the cluster, and across them."""

from typing import Any

from fastapi import APIRouter, Response

from admin_api.access.audit import OutcomeDep
from admin_api.access.guards import ADMIN, OPERATOR
from admin_api.configs import owners
from admin_api.configs.defaults import topic_defaults
from admin_api.configs.owners import Owner, broker_owner, cluster_owner, topic_owner
from admin_api.configs.routes import config_routes
from admin_api.configs.schemas import (
    AlterTopicsConfigs,
    BrokerConfig,
    BrokerConfigList,
    ClusterConfig,
    ClusterConfigList,
    TopicConfig,
    TopicConfigList,
    TopicFailures,
)
from admin_api.configs.several import alter_topics
from admin_api.dependencies import BrokerDep, ClusterDep, KafkaDep, TopicNameDep
from admin_api.long_lists import written
from admin_api.paging import Page, PageDep, cut

TOPICS_A_PAGE = 100
"""Of the list across topics, where no page size is said: each has some thirty."""
TOPICS_A_PAGE_MAX = 200
"""However large a page is asked for: ten thousand topics are 186 MB of JSON."""

router = APIRouter(prefix="/v3/clusters/{cluster_id}")


def _of_topic(cluster: ClusterDep, name: TopicNameDep) -> Owner:
    return topic_owner(cluster, name)


def _of_broker(cluster: ClusterDep, node: BrokerDep) -> Owner:
    return broker_owner(cluster, node.id)


def _of_cluster(cluster: ClusterDep) -> Owner:
    return cluster_owner(cluster)


@router.get(
    "/topics/-/configs",
    tags=["Configs"],
    response_model=TopicConfigList,
    summary="List all topics' configs",
)
async def list_all_topics_configs(
    cluster: ClusterDep, kafka: KafkaDep, page: PageDep
) -> Response:
    """The configurations of all topics; a page is so many topics, 100 if not said, and
    200 at most."""
    size = min(page.size or TOPICS_A_PAGE, TOPICS_A_PAGE_MAX)
    bounded = Page(size, page.after)
    chosen = cut(await kafka.topics(), bounded)
    of_all = [topic_owner(cluster, name) for name in chosen.keys]
    asked = [own.resource for own in of_all]
    found = await kafka.configs(asked, missing_ok=True)
    listed = cluster.place.listed("topics/-/configs", chosen.following)
    return await written(
        lambda: TopicConfigList(
            metadata=listed,
            data=[
                config
                for own, configs in zip(of_all, found, strict=True)
                for config in own.render_all(TopicConfig, configs)
            ],
        )
    )


@router.get(
    "/topics/{topic_name}/default-configs",
    tags=["Configs"],
    summary="List the configurations of a topic to be",
)
async def list_default_topic_configs(
    cluster: ClusterDep, name: TopicNameDep, kafka: KafkaDep
) -> TopicConfigList:
    """What a topic of this name would have if it were made now; there or not."""
    own = topic_owner(cluster, name)
    controller = broker_owner(cluster, cluster.controller_id)
    found = topic_defaults(await owners.describe(kafka, controller))
    listed = own.place.listed("default-configs")
    return TopicConfigList(metadata=listed, data=own.render_all(TopicConfig, found))


@router.post(
    "/topics/-/configs:alter",
    dependencies=[OPERATOR],
    status_code=204,
    tags=["Configs"],
    summary="Alter several topics' configs",
    responses={207: {"model": TopicFailures, "description": "Some topics failed."}},
)
async def alter_topics_configs(
    cluster: ClusterDep, body: AlterTopicsConfigs, kafka: KafkaDep, outcome: OutcomeDep
) -> Response:
    """Each topic is altered as a whole or not at all; 207 names those that are not."""
    outcome.is_dry_run = bool(body.validate_only)
    failures = await alter_topics(kafka, cluster, body)
    if not failures:
        return Response(status_code=204)
    if len(failures) == len(body.data):
        outcome.is_in_doubt = any(one.is_in_doubt for one in failures)
        outcome.is_void = not outcome.is_in_doubt
    answer = TopicFailures(failures=failures).model_dump_json()
    return Response(answer, status_code=207, media_type="application/json")


@router.get("/brokers/-/configs", tags=["Configs"], summary="List all brokers' configs")
async def list_all_brokers_configs(
    cluster: ClusterDep, kafka: KafkaDep
) -> BrokerConfigList:
    """The configurations of all brokers."""
    data: list[Any] = []
    for node in cluster.nodes:
        own = broker_owner(cluster, node.id)
        data += own.render_all(BrokerConfig, await owners.describe(kafka, own))
    return BrokerConfigList(
        metadata=cluster.place.listed("brokers/-/configs"), data=data
    )


router.include_router(
    config_routes(
        "/topics/{topic_name}/configs",
        _of_topic,
        TopicConfig,
        TopicConfigList,
        OPERATOR,
        ("retention.ms", "86400000"),
    )
)
router.include_router(
    config_routes(
        "/brokers/{broker_id}/configs",
        _of_broker,
        BrokerConfig,
        BrokerConfigList,
        ADMIN,
        ("log.retention.ms", "86400000"),
    )
)
router.include_router(
    config_routes(
        "/broker-configs",
        _of_cluster,
        ClusterConfig,
        ClusterConfigList,
        ADMIN,
        ("log.retention.ms", "86400000"),
    )
)
