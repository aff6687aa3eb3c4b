"""Generated from definitions/end_txn.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class EndTxnRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.END_TXN

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


@dataclass(slots=True)
class EndTxnResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.END_TXN

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
