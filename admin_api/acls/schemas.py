"""ACLs in the Confluent v3 shape."""

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from fastapi import Query
from pydantic import BaseModel, Field

from admin_api.dependencies import Text
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Metadata, Place, Resource


class Kind(StrEnum):
    """What an ACL is about."""

    ANY = "ANY"
    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"


class Pattern(StrEnum):
    ANY = "ANY"
    MATCH = "MATCH"
    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class AccessOperation(StrEnum):
    ANY = "ANY"
    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"


class Permission(StrEnum):
    ANY = "ANY"
    DENY = "DENY"
    ALLOW = "ALLOW"


class Acl(Resource):
    kind: str = "KafkaAcl"
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclList(Collection):
    kind: str = "KafkaAclList"
    data: list[Acl]


class DeletedAcls(BaseModel):
    """The ACLs that are gone now."""

    data: list[Acl]


class CreateAcl(Body):
    """An ACL to make."""

    resource_type: Kind
    resource_name: Text = Field(min_length=1)
    pattern_type: Pattern
    principal: Text = Field(min_length=1, examples=["User:alice"])
    host: Text = Field(min_length=1, examples=["*"])
    operation: AccessOperation
    permission: Permission

    def binding(self) -> AclBinding:
        """What the broker is asked for. Raises Problem 400 for a filter's words."""
        for name in ("resource_type", "pattern_type", "operation", "permission"):
            if getattr(self, name).value in ("ANY", "MATCH"):
                raise Problem(400, f"{name} cannot be {getattr(self, name).value}.")
        return AclBinding(*_words(self))


class CreateAcls(Body):
    data: list[CreateAcl] = Field(min_length=1, max_length=1000)


class AclQuery(BaseModel):
    """Which ACLs are meant; what is left out matches any."""

    resource_type: Kind = Kind.ANY
    resource_name: Text = ""
    pattern_type: Pattern = Pattern.ANY
    principal: Text = ""
    host: Text = ""
    operation: AccessOperation = AccessOperation.ANY
    permission: Permission = Permission.ANY

    def filter(self) -> AclBindingFilter:
        """What the broker is asked for."""
        return AclBindingFilter(*_words(self))


class AclDeletion(AclQuery):
    """Which ACLs shall go: what would match any has to be said."""

    resource_type: Kind
    pattern_type: Pattern
    operation: AccessOperation
    permission: Permission


AclQueryDep = Annotated[AclQuery, Query()]
AclDeletionDep = Annotated[AclDeletion, Query()]


def _words(said: CreateAcl | AclQuery) -> tuple[Any, ...]:
    kind = "BROKER" if said.resource_type is Kind.CLUSTER else said.resource_type.value
    return (
        ResourceType[kind],
        said.resource_name or None,
        ResourcePatternType[said.pattern_type.value],
        said.principal or None,
        said.host or None,
        AclOperation[said.operation.value],
        AclPermissionType[said.permission.value],
    )


def render(place: Place, cluster_id: str, found: AclBinding) -> Acl:
    """An ACL from librdkafka's AclBinding."""
    kind = "CLUSTER" if found.restype is ResourceType.BROKER else found.restype.name
    fields = {
        "resource_type": kind,
        "resource_name": found.name,
        "pattern_type": found.resource_pattern_type.name,
        "principal": found.principal,
        "host": found.host,
        "operation": found.operation.name,
        "permission": found.permission_type.name,
    }
    own = f"{place.url}/acls?{urlencode(fields)}"
    return Acl(metadata=Metadata(self=own), cluster_id=cluster_id, **fields)
