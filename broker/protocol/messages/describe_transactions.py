"""Generated from definitions/describe_transactions.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class DescribeTransactionsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    transactional_ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TopicData:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TransactionState:
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTransactionsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.DESCRIBE_TRANSACTIONS

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
