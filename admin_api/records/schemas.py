"""Records over HTTP in the Confluent v3 shape."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field, field_validator

from admin_api.dependencies import ID_MAX, LongText, Text
from admin_api.problems import Problem
from admin_api.resources import Body

ENTRIES_MAX = 1000
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

    type: DataType | None = Field(default=None, examples=["JSON"])
    data: Any = None
    subject: str | None = None
    subject_name_strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    raw_schema: str | None = Field(default=None, alias="schema")

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
    name: LongText
    value: str | None = Field(default=None, description="Base64.")


class ProduceRecord(Body):
    """A record to be produced; without a partition the key decides, as in Java."""

    partition_id: int | None = Field(default=None, le=ID_MAX)
    headers: list[ProduceHeader] | None = Field(default=None, max_length=10_000)
    key: ProduceData | None = None
    value: ProduceData | None = None
    timestamp: datetime | None = None

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
    id: Text = Field(min_length=1, max_length=80)


class ProduceBatch(Body):
    """Several records; each has an id by which it is reported."""

    entries: list[BatchEntry]

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
    size: int
    type: DataType


class Placed(BaseModel):
    """Where a record is now."""

    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int = Field(
        description="-1: it is there, and the broker did not say where, for it was "
        "sent again after an answer was lost."
    )
    timestamp: str | None
    key: ReportedData | None = None
    value: ReportedData | None = None


class Report(Placed):
    """Where a record is; `error_code` 200 says that it is there."""

    error_code: int = 200


class BatchSuccess(Placed):
    id: str


class BatchFailure(BaseModel):
    id: str
    error_code: int
    message: str


class BatchReport(BaseModel):
    """What became of each entry, in their order."""

    successes: list[BatchSuccess]
    failures: list[BatchFailure]


def shown_time(timestamp_ms: int) -> str:
    """Milliseconds since 1970 in Confluent's way: ``2021-02-05T19:14:42.500Z``."""
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
