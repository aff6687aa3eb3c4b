"""A cluster in the Confluent v3 shape."""

from pydantic import Field

from admin_api.fields import (
    KindField,
)
from admin_api.resources import Collection, Place, Related, Resource


class Cluster(Resource):
    """A Kafka cluster; the plane knows one."""

    kind: KindField = "KafkaCluster"
    controller: Related | None = Field(
        description="The broker that is its controller; null while there is none."
    )
    acls: Related = Field(description="Its ACLs.")
    brokers: Related = Field(description="Its brokers.")
    broker_configs: Related = Field(description="What is set for all brokers together.")
    consumer_groups: Related = Field(description="Its consumer groups.")
    topics: Related = Field(description="Its topics.")
    partition_reassignments: Related = Field(
        description="The reassignments of partitions that are under way."
    )


class ClusterList(Collection):
    """The clusters that the plane knows."""

    kind: KindField = "KafkaClusterList"
    data: list[Cluster] = Field(description="The one cluster.")


def render(place: Place, cluster_id: str, controller_id: int) -> Cluster:
    """The cluster with its links; without a controller while there is none."""
    controller = place.at("brokers", controller_id) if controller_id >= 0 else None
    return Cluster(
        metadata=place.metadata(),
        cluster_id=cluster_id,
        controller=controller.link() if controller else None,
        acls=place.link("acls"),
        brokers=place.link("brokers"),
        broker_configs=place.link("broker-configs"),
        consumer_groups=place.link("consumer-groups"),
        topics=place.link("topics"),
        partition_reassignments=place.link("topics/-/partitions/-/reassignment"),
    )
