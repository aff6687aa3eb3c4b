"""Records over HTTP in the Confluent v3 shape."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, field_validator

from admin_api.dependencies import ID_MAX, LongText, Text
from admin_api.fields import (
    ClusterIdField,
    ErrorCodeField,
    MessageField,
    PartitionIdField,
    TopicNameField,
    shown_as,
)
from admin_api.integers import NUMBER
from admin_api.problems import Problem
from admin_api.resources import Body

ENTRIES_MAX = 1000
RECORD: Final = {
    "partition_id": 0,
    "headers": [{"name": "trace-id", "value": "YWJjMTIz"}],
    "key": {"type": "STRING", "data": "customer-7"},
    "value": {"type": "JSON", "data": {"item": "book", "count": 2}},
    "timestamp": "2026-01-01T00:00:00Z",
}
ENTRY: Final = {"id": "first", **RECORD}
"""Bodies that produce one, for the document."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DataType(StrEnum):
    """How a key or value is written; what needs a schema registry is refused."""

    BINARY = "BINARY"
    JSON = "JSON"
    STRING = "STRING"
    AVRO = "AVRO"
    JSONSCHEMA = "JSONSCHEMA"
    PROTOBUF = "PROTOBUF"


class ProduceData(Body):
    """A key or value: base64 (`BINARY`), text (`STRING`) or any JSON (`JSON`)."""

    type: DataType | None = Field(
        default=None,
        description="How `data` is written; null is BINARY.",
        examples=["JSON"],
    )
    data: Any = Field(
        default=None,
        description="The key or value: base64 text for BINARY, a text for STRING, "
        "anything for JSON; null: none.",
        examples=[{"item": "book", "count": 2}],
    )
    subject: str | None = Field(
        default=None,
        description="Only for a schema registry, which is not here: refused.",
        examples=["orders-value"],
    )
    subject_name_strategy: str | None = Field(
        default=None,
        description="Only for a schema registry, which is not here: refused.",
        examples=["TOPIC_NAME"],
    )
    schema_id: Annotated[int | None, NUMBER] = Field(
        default=None,
        description="Only for a schema registry, which is not here: refused.",
        examples=[1],
    )
    schema_version: Annotated[int | None, NUMBER] = Field(
        default=None,
        description="Only for a schema registry, which is not here: refused.",
        examples=[1],
    )
    raw_schema: str | None = Field(
        default=None,
        alias="schema",
        description="Only for a schema registry, which is not here: refused.",
        examples=['{"type": "string"}'],
    )

    @property
    def wants_schema(self) -> bool:
        """Whether anything is said that only a schema registry knows."""
        said = (
            self.subject,
            self.subject_name_strategy,
            self.schema_id,
            self.schema_version,
            self.raw_schema,
        )
        return any(one is not None for one in said)


class ProduceHeader(Body):
    """A header of a record."""

    name: LongText = Field(description="Its name.", examples=["trace-id"])
    value: str | None = Field(
        default=None,
        description="Its bytes as base64; null: it has none.",
        examples=["YWJjMTIz"],
    )


class ProduceRecord(Body):
    """A record to be produced; without a partition the key decides, as in Java."""

    model_config = shown_as(RECORD, {"value": {"type": "STRING", "data": "hello"}})

    partition_id: Annotated[int | None, Field(le=ID_MAX), NUMBER] = Field(
        default=None,
        description="The partition that it goes to; null: its key decides, as in "
        "Java's producer.",
        examples=[0],
    )
    headers: list[ProduceHeader] | None = Field(
        default=None, max_length=10_000, description="Its headers, in their order."
    )
    key: ProduceData | None = Field(
        default=None, description="Its key; null: it has none."
    )
    value: ProduceData | None = Field(
        default=None,
        description="Its value; null deletes the key in a compacted topic.",
    )
    timestamp: datetime | None = Field(
        default=None,
        description="When it happened; null: now. A time without a zone is UTC.",
        examples=["2026-01-01T00:00:00Z"],
    )

    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, 0 for now. Raises Problem 400 for before 1970."""
        if self.timestamp is None:
            return 0
        said = self.timestamp
        aware = said if said.tzinfo else said.replace(tzinfo=UTC)
        found = (aware - _EPOCH) // timedelta(milliseconds=1)
        if found < 1:
            raise Problem(400, "timestamp: it is after the beginning of 1970.")
        return found


class BatchEntry(ProduceRecord):
    """A record of a batch."""

    model_config = shown_as(ENTRY)

    id: Text = Field(
        min_length=1,
        max_length=80,
        description="The name by which it is reported, chosen by the client; each "
        "once in a batch.",
        examples=["first"],
    )


class ProduceBatch(Body):
    """Several records; each has an id by which it is reported."""

    model_config = shown_as({"entries": [ENTRY]})

    entries: list[BatchEntry] = Field(description="The records, 1,000 at most.")

    @field_validator("entries", mode="before")
    @classmethod
    def check_length(cls, entries: Any) -> Any:
        """Raises Problem 42208 for too many, before any of them is looked at."""
        if isinstance(entries, list) and len(entries) > ENTRIES_MAX:
            raise Problem(42208, f"More than {ENTRIES_MAX} entries in batch.")
        return entries

    def check(self) -> None:
        """Raises Problem 42208 for a batch that cannot be."""
        why = None
        if not self.entries:
            why = "Empty batch."
        elif len({entry.id for entry in self.entries}) < len(self.entries):
            why = "Batch entry IDs are not distinct."
        if why:
            raise Problem(42208, why)


class ReportedData(BaseModel):
    """What was written of a key or a value."""

    size: int = Field(description="Its bytes in the log.", examples=[26])
    type: DataType = Field(description="How it was sent.")


class Placed(BaseModel):
    """Where a record is now."""

    cluster_id: ClusterIdField
    topic_name: TopicNameField
    partition_id: PartitionIdField
    offset: int = Field(
        description="Its offset; -1: it is there, and the broker did not say "
        "where, for it was sent again after an answer was lost.",
        examples=[1500],
    )
    timestamp: str | None = Field(
        description="The time that it has in the log; null: none.",
        examples=["2026-01-01T00:00:00.000Z"],
    )
    key: ReportedData | None = Field(
        default=None, description="Its key; null: it has none."
    )
    value: ReportedData | None = Field(
        default=None, description="Its value; null: it has none."
    )


class Report(Placed):
    """Where a record is; `error_code` 200 says that it is there."""

    error_code: int = Field(
        default=200, description="200: it is there; else why it is not.", examples=[200]
    )


class BatchSuccess(Placed):
    """An entry that is in the log."""

    id: str = Field(description="The name that the client gave it.", examples=["first"])


class BatchFailure(BaseModel):
    """An entry that is not in the log."""

    id: str = Field(
        description="The name that the client gave it.", examples=["second"]
    )
    error_code: ErrorCodeField
    message: MessageField


class BatchReport(BaseModel):
    """What became of each entry, in their order."""

    successes: list[BatchSuccess] = Field(description="Entries that are in the log.")
    failures: list[BatchFailure] = Field(description="Entries that are not.")


def shown_time(timestamp_ms: int) -> str:
    """Milliseconds since 1970 in Confluent's way: ``2021-02-05T19:14:42.500Z``."""
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
