"""Brokers in the Confluent v3 shape."""

from typing import Any

from admin_api.resources import Collection, Place, Related, Resource


class Broker(Resource):
    kind: str = "KafkaBroker"
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None = None
    configs: Related
    partition_replicas: Related


class BrokerList(Collection):
    kind: str = "KafkaBrokerList"
    data: list[Broker]


def render(place: Place, cluster_id: str, node: Any) -> Broker:
    """A broker from librdkafka's Node."""
    own = place.at("brokers", node.id)
    return Broker(
        metadata=own.metadata(),
        cluster_id=cluster_id,
        broker_id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack or None,
        configs=own.link("configs"),
        partition_replicas=own.link("partition-replicas"),
    )
