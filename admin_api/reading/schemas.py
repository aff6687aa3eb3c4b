"""Records that were read, as ``/v1`` shows them."""

import base64
from enum import StrEnum
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from pydantic import BaseModel, Field

from admin_api.resources import CollectionMetadata

_CONTROLS = frozenset(map(chr, range(32))) - set("\t\n\r") | {"\x7f"}
_TIMESTAMP_TYPES = ("NONE", "CREATE_TIME", "LOG_APPEND_TIME")


class Encoding(StrEnum):
    """How bytes are written."""

    TEXT = "TEXT"
    BASE64 = "BASE64"


class Data(BaseModel):
    """Bytes: as they are if they are UTF-8 without control characters, else base64."""

    type: Encoding
    data: str = Field(examples=["hello"])


class ReadHeader(BaseModel):
    name: str
    value: Data | None


class ReadRecord(BaseModel):
    """A record of a topic."""

    partition_id: int
    offset: int
    timestamp_ms: int | None = Field(examples=[1_700_000_000_000])
    timestamp_type: str = Field(description="CREATE_TIME, LOG_APPEND_TIME or NONE.")
    key: Data | None
    value: Data | None
    headers: list[ReadHeader]


class Position(BaseModel):
    """From which offset a partition is to be read on."""

    partition_id: int
    offset: int


class Ending(StrEnum):
    """Why reading stopped: at the end that the log had, or at one of the limits."""

    END = "END"
    RECORDS = "RECORDS"
    BYTES = "BYTES"
    TIMEOUT = "TIMEOUT"


class RecordList(BaseModel):
    """Records by partition and offset; ``metadata.next`` reads on."""

    metadata: CollectionMetadata
    topic_name: str = Field(examples=["orders"])
    ended_by: Ending
    scanned: int = Field(description="Records that were looked at, wanted or not.")
    positions: list[Position]
    data: list[ReadRecord]


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
