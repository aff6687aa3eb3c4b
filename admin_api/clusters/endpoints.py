"""``GET /v3/clusters`` and ``GET /v3/clusters/{cluster_id}``: the one cluster."""

from fastapi import APIRouter, Request

from admin_api.clusters.schemas import (
    Cluster,
    ClusterList,
    CollectionMetadata,
    Metadata,
    Related,
)
from admin_api.dependencies import ClusterDep, KafkaDep

router = APIRouter(prefix="/v3/clusters", tags=["clusters"])


def render(base: str, cluster_id: str, controller_id: int) -> Cluster:
    """The cluster with its links; ``base`` ends without a slash."""
    own = f"{base}/v3/clusters/{cluster_id}"
    return Cluster(
        metadata=Metadata(self=own, resource_name=f"crn:///kafka={cluster_id}"),
        cluster_id=cluster_id,
        controller=Related(related=f"{own}/brokers/{controller_id}"),
        acls=Related(related=f"{own}/acls"),
        brokers=Related(related=f"{own}/brokers"),
        broker_configs=Related(related=f"{own}/broker-configs"),
        consumer_groups=Related(related=f"{own}/consumer-groups"),
        topics=Related(related=f"{own}/topics"),
        partition_reassignments=Related(
            related=f"{own}/topics/-/partitions/-/reassignment"
        ),
    )


def base_of(request: Request) -> str:
    return str(request.base_url).rstrip("/")


@router.get("")
def list_clusters(request: Request, kafka: KafkaDep) -> ClusterList:
    found = kafka.metadata()
    base = base_of(request)
    return ClusterList(
        metadata=CollectionMetadata(self=f"{base}/v3/clusters"),
        data=[render(base, found.cluster_id, found.controller_id)],
    )


@router.get("/{cluster_id}")
def get_cluster(request: Request, cluster_id: ClusterDep, kafka: KafkaDep) -> Cluster:
    return render(base_of(request), cluster_id, kafka.metadata().controller_id)
