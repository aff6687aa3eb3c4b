"""Generated from definitions/add_offsets_to_txn.py: do not edit."""

from dataclasses import dataclass
from typing import ClassVar

from broker.protocol.api_keys import ApiKey


@dataclass(slots=True)
class AddOffsetsToTxnRequest:
    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


@dataclass(slots=True)
class AddOffsetsToTxnResponse:
    API_KEY: ClassVar[ApiKey] = ApiKey.ADD_OFFSETS_TO_TXN

    throttle_time_ms: int = 0
    error_code: int = 0
