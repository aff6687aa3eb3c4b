"""``/v3/clusters/{cluster_id}/brokers``: which there are, and what they hold."""

from fastapi import APIRouter, Response

from admin_api.brokers.schemas import Broker, BrokerList, render
from admin_api.dependencies import BrokerDep, ClusterDep, KafkaDep
from admin_api.long_lists import written
from admin_api.paging import PageDep, cut
from admin_api.partitions.schemas import ReplicaList, of_metadata

router = APIRouter(prefix="/v3/clusters/{cluster_id}/brokers", tags=["Broker"])


@router.get("", summary="List brokers")
async def list_brokers(cluster: ClusterDep) -> BrokerList:
    """All brokers of the cluster."""
    return BrokerList(
        metadata=cluster.place.listed("brokers"),
        data=[render(cluster.place, cluster.id, node) for node in cluster.nodes],
    )


@router.get("/{broker_id}", summary="Get a broker")
async def get_broker(cluster: ClusterDep, node: BrokerDep) -> Broker:
    """One broker."""
    return render(cluster.place, cluster.id, node)


@router.get(
    "/{broker_id}/partition-replicas",
    response_model=ReplicaList,
    summary="List a broker's replicas",
)
async def list_broker_replicas(
    cluster: ClusterDep, node: BrokerDep, kafka: KafkaDep, page: PageDep
) -> Response:
    """The replicas that a broker holds; a page is so many topics."""
    found = await kafka.topics()
    chosen = cut(found, page)
    own = cluster.place.at("brokers", node.id)
    return await written(
        lambda: ReplicaList(
            metadata=own.listed("partition-replicas", chosen.following),
            data=[
                replica
                for name in chosen.keys
                for replica in of_metadata(cluster.place, cluster.id, found[name])
                if replica.broker_id == node.id
            ],
        )
    )
