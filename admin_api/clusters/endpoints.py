"""``GET /v3/clusters`` and ``GET /v3/clusters/{cluster_id}``: the one cluster."""

from fastapi import APIRouter

from admin_api.clusters.schemas import Cluster, ClusterList, render
from admin_api.dependencies import BaseDep, ClusterDep, OnlyClusterDep
from admin_api.resources import CollectionMetadata

router = APIRouter(prefix="/v3/clusters", tags=["Cluster"])


@router.get("", summary="List clusters")
async def list_clusters(base: BaseDep, own: OnlyClusterDep) -> ClusterList:
    """The cluster that this plane is for."""
    return ClusterList(
        metadata=CollectionMetadata(self=f"{base}/v3/clusters"),
        data=[render(own.place, own.id, own.controller_id)],
    )


@router.get("/{cluster_id}", summary="Get a cluster")
async def get_cluster(cluster: ClusterDep) -> Cluster:
    """The cluster by its id."""
    return render(cluster.place, cluster.id, cluster.controller_id)
