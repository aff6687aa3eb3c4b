"""Connections of Kafka clients, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.resources import CollectionMetadata, Shown


class Connection(BaseModel):
    """A connection that is open now."""

    address: str = Field(description="Of the client.", examples=["127.0.0.1:51234"])
    client_id: Shown | None = Field(
        description="`client.id`, as the client chose it; null: it has not said one.",
        examples=["billing-app"],
    )
    software_name: Shown = Field(
        description="What the client calls its library; empty if it does not say.",
        examples=["librdkafka"],
    )
    software_version: Shown = Field(
        description="The version of that library.", examples=["2.16.1"]
    )
    age_ms: int = Field(description="For how long it has been open.", examples=[360000])
    idle_ms: int = Field(
        description="How long it has said nothing; looked at every few seconds.",
        examples=[1200],
    )
    bytes_in: int = Field(description="Bytes that it sent.", examples=[52430])
    bytes_out: int = Field(description="Bytes of answers to it.", examples=[1048576])
    open_requests: int = Field(
        description="Requests that have no answer yet.", examples=[1]
    )
    unsent_bytes: int = Field(
        description="Bytes that it has not taken yet.", examples=[0]
    )


class ConnectionList(BaseModel):
    """Connections that are open now."""

    metadata: CollectionMetadata = Field(
        description="Where the list is, and where it goes on."
    )
    data: list[Connection] = Field(description="One for each connection.")
