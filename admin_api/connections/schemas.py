"""Connections of Kafka clients, as ``/v1`` shows them."""

from pydantic import BaseModel, Field

from admin_api.resources import CollectionMetadata, Shown


class Connection(BaseModel):
    """A connection that is open now."""

    address: str = Field(description="Of the client.", examples=["127.0.0.1:51234"])
    client_id: Shown | None = Field(description="null: it has not said one.")
    software_name: Shown = Field(examples=["librdkafka"])
    software_version: Shown = Field(examples=["2.16.1"])
    age_ms: int
    idle_ms: int = Field(
        description="How long it has said nothing; looked at every few seconds."
    )
    bytes_in: int = Field(description="Bytes that it sent.")
    bytes_out: int = Field(description="Bytes of answers to it.")
    open_requests: int = Field(description="Requests that have no answer yet.")
    unsent_bytes: int = Field(description="Bytes that it has not taken yet.")


class ConnectionList(BaseModel):
    metadata: CollectionMetadata
    data: list[Connection]
