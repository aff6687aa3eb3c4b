"""Records that were read, as ``/v1`` shows them."""

import base64
from enum import StrEnum
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from pydantic import BaseModel, Field

from admin_api.fields import (
    TIME_MS,
    PartitionIdField,
    TopicNameField,
)
from admin_api.resources import CollectionMetadata

_CONTROLS = frozenset(map(chr, range(32))) - set("\t\n\r") | {"\x7f"}
_TIMESTAMP_TYPES = ("NONE", "CREATE_TIME", "LOG_APPEND_TIME")


class Encoding(StrEnum):
    """How bytes are written."""

    TEXT = "TEXT"
    BASE64 = "BASE64"


class Data(BaseModel):
    """Bytes: as they are if they are UTF-8 without control characters, else base64."""

    type: Encoding = Field(description="How the bytes are written.")
    data: str = Field(description="The bytes.", examples=["hello"])


class ReadHeader(BaseModel):
    """A header of a record."""

    name: str = Field(
        description="Its name; several may have the same.", examples=["trace-id"]
    )
    value: Data | None = Field(description="Its bytes; null: it has none.")


class ReadRecord(BaseModel):
    """A record of a topic."""

    partition_id: PartitionIdField
    offset: int = Field(description="Its offset in the partition.", examples=[1200])
    timestamp_ms: int | None = Field(
        description="Milliseconds since 1970; null: it has none.", examples=[TIME_MS]
    )
    timestamp_type: str = Field(
        description="CREATE_TIME, LOG_APPEND_TIME or NONE.", examples=["CREATE_TIME"]
    )
    key: Data | None = Field(description="Its key; null: it has none.")
    value: Data | None = Field(
        description="Its value; null: it has none, as that which deletes a key."
    )
    headers: list[ReadHeader] = Field(
        description="In the order in which they were written."
    )


class Position(BaseModel):
    """From which offset a partition is to be read on."""

    partition_id: PartitionIdField
    offset: int = Field(description="The next offset to be read.", examples=[1201])


class Ending(StrEnum):
    """Why reading stopped: at the end that the log had, or at one of the limits."""

    END = "END"
    RECORDS = "RECORDS"
    BYTES = "BYTES"
    TIMEOUT = "TIMEOUT"


class RecordList(BaseModel):
    """Records by partition and offset; ``metadata.next`` reads on."""

    metadata: CollectionMetadata = Field(
        description="Where the records were asked for, and where to read on."
    )
    topic_name: TopicNameField
    ended_by: Ending = Field(description="Why there are no more.")
    scanned: int = Field(
        description="Records that were looked at, wanted or not.", examples=[1]
    )
    positions: list[Position] = Field(description="Where each partition is read on.")
    data: list[ReadRecord] = Field(description="The records that are wanted.")


def shown(data: bytes | None) -> Data | None:
    """Bytes as text if they are, else as base64."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROLS.isdisjoint(text):
        return Data(type=Encoding.TEXT, data=text)
    return Data(type=Encoding.BASE64, data=base64.b64encode(data).decode())


def render(message: Any) -> ReadRecord:
    """A record from librdkafka's Message."""
    kind, timestamp_ms = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE
    return ReadRecord(
        partition_id=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp_ms if known else None,
        timestamp_type=_TIMESTAMP_TYPES[kind],
        key=shown(message.key()),
        value=shown(message.value()),
        headers=[
            ReadHeader(name=name, value=shown(value))
            for name, value in message.headers() or ()
        ],
    )
