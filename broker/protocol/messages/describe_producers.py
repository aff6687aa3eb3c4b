"""Generated from definitions/describe_producers.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class TopicRequest:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    topics: list[TopicRequest] = field(default_factory=list)


@dataclass(slots=True)
class ProducerState:
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclass(slots=True)
class PartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@dataclass(slots=True)
class TopicResponse:
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_PRODUCERS

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)
