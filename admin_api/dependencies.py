"""What endpoints may ask for in their signatures."""

from typing import Annotated

from fastapi import Depends, Request

from admin_api.kafka import Kafka
from admin_api.problems import Problem
from admin_api.status import StatusFiles


def _kafka(request: Request) -> Kafka:
    kafka: Kafka = request.app.state.kafka
    return kafka


def _status(request: Request) -> StatusFiles:
    status: StatusFiles = request.app.state.status
    return status


KafkaDep = Annotated[Kafka, Depends(_kafka)]
StatusDep = Annotated[StatusFiles, Depends(_status)]


def _cluster(cluster_id: str, kafka: KafkaDep) -> str:
    own = kafka.metadata().cluster_id
    if own != cluster_id:
        raise Problem(404, f"Cluster {cluster_id} cannot be found.")
    return cluster_id


ClusterDep = Annotated[str, Depends(_cluster)]
