"""What every resource of Confluent's v3 shape has: a kind, a place, links to others."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from admin_api.fields import (
    BASE,
    CLUSTER,
    TOPIC,
    TOPIC_URL,
    ClusterIdField,
    KindField,
)


def printable(text: str) -> str:
    """Text that can be written as UTF-8: half of a surrogate pair is a question mark.

    JSON may hold such halves, and an owner may write anything into a Delta log.
    """
    return text.encode(errors="replace").decode()


Shown = Annotated[str, AfterValidator(printable)]
"""Text from somewhere else."""


class Body(BaseModel):
    """What a client sends: a field that nobody knows is an error.

    What need not be said in Confluent's shape may be null as well, for the same: so say
    it the clients that are generated from Confluent's document.
    """

    model_config = ConfigDict(extra="forbid")


class Related(BaseModel):
    """A link."""

    related: str = Field(
        description="The URL of what it leads to.", examples=[TOPIC_URL]
    )


class Metadata(BaseModel):
    """Where a resource is, and its name."""

    self: str = Field(description="The URL of this very thing.", examples=[TOPIC_URL])
    resource_name: str | None = Field(
        default=None,
        description="Its name by Confluent's scheme (crn); null where it has none.",
        examples=[f"crn:///kafka={CLUSTER}/topic={TOPIC}"],
    )


class CollectionMetadata(BaseModel):
    """Where a collection is, and its next page if there is one."""

    self: str = Field(
        description="The URL of the collection.",
        examples=[f"{BASE}/v3/clusters/{CLUSTER}/topics"],
    )
    next: str | None = Field(
        default=None,
        description="The URL of the next page; null: this is the last one.",
        examples=[
            f"{BASE}/v3/clusters/{CLUSTER}/topics?page_size=1&page_token=b3JkZXJz"
        ],
    )


class Resource(BaseModel):
    """One thing of the cluster."""

    kind: KindField
    metadata: Metadata = Field(description="Where it is, and what it is called.")
    cluster_id: ClusterIdField


class Collection(BaseModel):
    """Several of one kind; they are in ``data``."""

    kind: KindField
    metadata: CollectionMetadata = Field(
        description="Where the list is, and where it goes on."
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a resource is: its URL, and its name (Confluent's ``crn``)."""

    url: str
    crn: str

    def at(self, collection: str, name: object) -> "Place":
        """The member ``name`` of a collection below: ``topics`` of ``topic=orders``."""
        written = quote(str(name), safe="")
        singular = collection.removesuffix("s")
        url, crn = f"{self.url}/{collection}/{written}", f"{self.crn}/{singular}={name}"
        return Place(url, crn)

    def one(self, name: str) -> "Place":
        """What there is one of below, as a group's ``lag-summary``."""
        return Place(f"{self.url}/{name}", f"{self.crn}/{name}")

    def link(self, below: str = "") -> Related:
        """A link to here, or to what is ``below``."""
        return Related(related=f"{self.url}/{below}" if below else self.url)

    def metadata(self) -> Metadata:
        """Of the resource that is here."""
        return Metadata(self=self.url, resource_name=self.crn)

    def listed(self, collection: str, following: str = "") -> CollectionMetadata:
        """Of a collection below; ``following`` is the query of its next page."""
        url = f"{self.url}/{collection}"
        return CollectionMetadata(
            self=url, next=f"{url}?{following}" if following else None
        )


def cluster_place(base: str, cluster_id: str) -> Place:
    """The cluster's place; ``base`` is where the plane is, without a slash."""
    return Place(
        f"{base}/v3/clusters/{quote(cluster_id, safe='')}", f"crn:///kafka={cluster_id}"
    )
