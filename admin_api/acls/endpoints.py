"""ACLs: what the broker answers of them. Without an authorizer that is a refusal."""

from fastapi import APIRouter, Response

from admin_api.access.guards import ADMIN
from admin_api.acls.schemas import (
    AclDeletionDep,
    AclList,
    AclQueryDep,
    CreateAcl,
    CreateAcls,
    DeletedAcls,
    render,
)
from admin_api.dependencies import ClusterDep, KafkaDep

router = APIRouter(prefix="/v3/clusters/{cluster_id}", tags=["ACL"])


@router.get("/acls", summary="Search ACLs")
async def search_acls(
    cluster: ClusterDep, kafka: KafkaDep, query: AclQueryDep
) -> AclList:
    """The ACLs that match."""
    found = await kafka.acls(query.filter())
    data = [render(cluster.place, cluster.id, one) for one in sorted(found)]
    return AclList(metadata=cluster.place.listed("acls"), data=data)


@router.post("/acls", dependencies=[ADMIN], status_code=201, summary="Create an ACL")
async def create_acl(cluster: ClusterDep, kafka: KafkaDep, body: CreateAcl) -> Response:
    """Create one ACL; `Location` says where it is."""
    binding = body.binding()
    await kafka.create_acls([binding])
    own = render(cluster.place, cluster.id, binding).metadata.self
    return Response(status_code=201, headers={"Location": own})


@router.post(
    "/acls:batch", dependencies=[ADMIN], status_code=201, summary="Create ACLs"
)
async def create_acls(
    cluster: ClusterDep, kafka: KafkaDep, body: CreateAcls
) -> Response:
    """Create several ACLs."""
    await kafka.create_acls([one.binding() for one in body.data])
    return Response(status_code=201)


@router.delete("/acls", dependencies=[ADMIN], summary="Delete ACLs")
async def delete_acls(
    cluster: ClusterDep, kafka: KafkaDep, query: AclDeletionDep
) -> DeletedAcls:
    """Delete the ACLs that match."""
    found = await kafka.delete_acls(query.filter())
    data = [render(cluster.place, cluster.id, one) for one in sorted(found)]
    return DeletedAcls(data=data)
