"""Generated from definitions/list_transactions.py: do not edit."""

from dataclasses import dataclass, field
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class ListTransactionsRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


@dataclass(slots=True)
class TransactionState:
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


@dataclass(slots=True)
class ListTransactionsResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.LIST_TRANSACTIONS

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
