"""ACLs in the Confluent v3 shape."""

from enum import StrEnum
from typing import Annotated, Any, Final
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
from admin_api.fields import (
    TOPIC,
    KindField,
    shown_as,
)
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Metadata, Place, Resource

ACL: Final = {
    "resource_type": "TOPIC",
    "resource_name": TOPIC,
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
"""A body that makes one, for the document."""


class Kind(StrEnum):
    """What an ACL is about."""

    ANY = "ANY"
    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"


class Pattern(StrEnum):
    """How names are compared: the very name (LITERAL) or what begins
    with it (PREFIXED)."""

    ANY = "ANY"
    MATCH = "MATCH"
    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class AccessOperation(StrEnum):
    """What somebody may or may not do."""

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
    """Whether it is allowed or denied; who is denied may not, whatever
    else is allowed."""

    ANY = "ANY"
    DENY = "DENY"
    ALLOW = "ALLOW"


class Acl(Resource):
    """A rule that says who may do what."""

    kind: KindField = "KafkaAcl"
    resource_type: str = Field(description="What it is about.", examples=["TOPIC"])
    resource_name: str = Field(
        description="The name of that, `*` for all.", examples=[TOPIC]
    )
    pattern_type: str = Field(
        description="How the name is compared.", examples=["LITERAL"]
    )
    principal: str = Field(description="Whom it is about.", examples=["User:alice"])
    host: str = Field(description="From where, `*` for anywhere.", examples=["*"])
    operation: str = Field(description="What it allows or denies.", examples=["READ"])
    permission: str = Field(
        description="Whether it allows or denies.", examples=["ALLOW"]
    )


class AclList(Collection):
    """ACLs that match."""

    kind: KindField = "KafkaAclList"
    data: list[Acl] = Field(description="One for each ACL.")


class DeletedAcls(BaseModel):
    """The ACLs that are gone now."""

    data: list[Acl] = Field(description="One for each ACL.")


class CreateAcl(Body):
    """An ACL to make."""

    model_config = shown_as(ACL)

    resource_type: Kind = Field(description="What it is about.", examples=["TOPIC"])
    resource_name: Text = Field(
        min_length=1, description="The name of that, `*` for all.", examples=[TOPIC]
    )
    pattern_type: Pattern = Field(
        description="How the name is compared.", examples=["LITERAL"]
    )
    principal: Text = Field(
        min_length=1, description="Whom it is about.", examples=["User:alice"]
    )
    host: Text = Field(
        min_length=1, description="From where, `*` for anywhere.", examples=["*"]
    )
    operation: AccessOperation = Field(
        description="What it allows or denies.", examples=["READ"]
    )
    permission: Permission = Field(
        description="Whether it allows or denies.", examples=["ALLOW"]
    )

    def binding(self) -> AclBinding:
        """What the broker is asked for. Raises Problem 400 for a filter's words."""
        for name in ("resource_type", "pattern_type", "operation", "permission"):
            if getattr(self, name).value in ("ANY", "MATCH"):
                raise Problem(400, f"{name} cannot be {getattr(self, name).value}.")
        return AclBinding(*_words(self))


class CreateAcls(Body):
    """ACLs to make."""

    model_config = shown_as({"data": [ACL]})

    data: list[CreateAcl] = Field(
        min_length=1, max_length=1000, description="1,000 at most."
    )


class AclQuery(BaseModel):
    """Which ACLs are meant; what is left out matches any."""

    resource_type: Kind = Field(
        default=Kind.ANY,
        description="Of which kind of resource; `ANY` for all.",
        examples=["TOPIC"],
    )
    resource_name: Text = Field(
        default="",
        description="Of the resource of this name; empty for any.",
        examples=[TOPIC],
    )
    pattern_type: Pattern = Field(
        default=Pattern.ANY,
        description="With which pattern: `ANY` for all, `MATCH` for all that would "
        "match the name.",
        examples=["LITERAL"],
    )
    principal: Text = Field(
        default="",
        description="About this principal; empty for any.",
        examples=["User:alice"],
    )
    host: Text = Field(
        default="", description="From this host; empty for any.", examples=["*"]
    )
    operation: AccessOperation = Field(
        default=AccessOperation.ANY,
        description="About this operation; `ANY` for all.",
        examples=["READ"],
    )
    permission: Permission = Field(
        default=Permission.ANY,
        description="With this permission; `ANY` for both.",
        examples=["ALLOW"],
    )

    def filter(self) -> AclBindingFilter:
        """What the broker is asked for."""
        return AclBindingFilter(*_words(self))


class AclDeletion(AclQuery):
    """Which ACLs shall go: what would match any has to be said."""

    resource_type: Kind = Field(
        description="Of which kind of resource; `ANY` for all.", examples=["TOPIC"]
    )
    pattern_type: Pattern = Field(
        description="With which pattern: `ANY` for all, `MATCH` for all that would "
        "match the name.",
        examples=["LITERAL"],
    )
    operation: AccessOperation = Field(
        description="About this operation; `ANY` for all.", examples=["READ"]
    )
    permission: Permission = Field(
        description="With this permission; `ANY` for both.", examples=["ALLOW"]
    )


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
