"""Brokers in the Confluent v3 shape."""

from typing import Any

from pydantic import Field

from admin_api.fields import (
    BrokerIdField,
    KindField,
)
from admin_api.resources import Collection, Place, Related, Resource


class Broker(Resource):
    """A broker that clients can connect to."""

    kind: KindField = "KafkaBroker"
    broker_id: BrokerIdField
    host: str | None = Field(
        description="The host that it tells clients to connect to.",
        examples=["127.0.0.1"],
    )
    port: int | None = Field(description="The port beside it.", examples=[9092])
    rack: str | None = Field(
        default=None, description="Its rack; null: it names none.", examples=["rack-1"]
    )
    configs: Related = Field(description="Its configurations.")
    partition_replicas: Related = Field(
        description="The replicas of partitions that are on it."
    )


class BrokerList(Collection):
    """The brokers of a cluster."""

    kind: KindField = "KafkaBrokerList"
    data: list[Broker] = Field(description="One for each broker, by id.")


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
