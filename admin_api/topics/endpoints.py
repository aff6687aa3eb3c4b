"""List, create, get and delete topics."""

from confluent_kafka.admin import NewTopic, TopicMetadata
from fastapi import APIRouter, Request, Response

from admin_api.clusters.endpoints import base_of
from admin_api.clusters.schemas import CollectionMetadata, Metadata, Related
from admin_api.dependencies import ClusterDep, KafkaDep
from admin_api.kafka import Kafka
from admin_api.problems import Problem
from admin_api.topics.schemas import CreateTopic, Topic, TopicList

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["topics"])


def render(base: str, cluster_id: str, name: str, found: TopicMetadata) -> Topic:
    """A topic with its links, from what Metadata said of it."""
    own = f"{base}/v3/clusters/{cluster_id}/topics/{name}"
    crn = f"crn:///kafka={cluster_id}/topic={name}"
    replicas = [len(part.replicas) for part in found.partitions.values()]
    return Topic(
        metadata=Metadata(self=own, resource_name=crn),
        cluster_id=cluster_id,
        topic_name=name,
        is_internal=name.startswith("__"),
        replication_factor=max(replicas, default=1),
        partitions_count=len(found.partitions),
        partitions=Related(related=f"{own}/partitions"),
        configs=Related(related=f"{own}/configs"),
        partition_reassignments=Related(related=f"{own}/partitions/-/reassignment"),
    )


def known(kafka: Kafka, name: str) -> TopicMetadata:
    """The topic's metadata; 40403 where there is none."""
    found = kafka.topic(name)
    if found is None:
        raise Problem(40403, "This server does not host this topic-partition.")
    return found


@router.get("")
def list_topics(request: Request, cluster_id: ClusterDep, kafka: KafkaDep) -> TopicList:
    base = base_of(request)
    found = kafka.metadata().topics
    return TopicList(
        metadata=CollectionMetadata(self=f"{base}/v3/clusters/{cluster_id}/topics"),
        data=[render(base, cluster_id, name, found[name]) for name in sorted(found)],
    )


@router.post("", status_code=201)
def create_topic(
    request: Request,
    response: Response,
    cluster_id: ClusterDep,
    body: CreateTopic,
    kafka: KafkaDep,
) -> Topic:
    wanted = NewTopic(
        body.topic_name,
        num_partitions=body.partitions_count or -1,
        replication_factor=body.replication_factor or -1,
        config={entry.name: entry.value for entry in body.configs},
    )
    kafka.create(wanted, body.validate_only)
    base = base_of(request)
    if body.validate_only:
        response.status_code = 200
        return _proposed(base, cluster_id, body)
    topic = render(base, cluster_id, body.topic_name, known(kafka, body.topic_name))
    response.headers["Location"] = topic.metadata.self
    return topic


@router.get("/{topic_name}")
def get_topic(
    request: Request, cluster_id: ClusterDep, topic_name: str, kafka: KafkaDep
) -> Topic:
    found = known(kafka, topic_name)
    return render(base_of(request), cluster_id, topic_name, found)


@router.delete("/{topic_name}", status_code=204)
def delete_topic(cluster_id: ClusterDep, topic_name: str, kafka: KafkaDep) -> None:
    known(kafka, topic_name)
    kafka.delete(topic_name)


def _proposed(base: str, cluster_id: str, body: CreateTopic) -> Topic:
    topic = render(base, cluster_id, body.topic_name, TopicMetadata())
    topic.partitions_count = body.partitions_count or 0
    topic.replication_factor = body.replication_factor or 1
    return topic
