"""A cluster in the Confluent v3 shape."""

from admin_api.resources import Collection, Place, Related, Resource


class Cluster(Resource):
    kind: str = "KafkaCluster"
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class ClusterList(Collection):
    kind: str = "KafkaClusterList"
    data: list[Cluster]


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
