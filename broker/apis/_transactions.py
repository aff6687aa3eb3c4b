"""What the APIs of transactions have in common: codes that a version knows, new ids.

The coordinator speaks today's words (``broker/transactions``); a client that is older
than a code must not be given it, or it takes a zombie's fate for a fault of its own.
"""

from dataclasses import replace
from typing import Final, TypeVar

from broker.protocol.errors import ErrorCode, KafkaError
from broker.runtime.services import Broker
from broker.transactions.commands import End, InitProducer

NewId = TypeVar("NewId", InitProducer, End)

NEVER: Final = 1 << 15
"""Above every version."""

OLDER_CODES: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,
}
"""What older versions say instead (KIP-588, KIP-890)."""


def known_since(
    code: ErrorCode, version: int, *, fenced: int = 0, abortable: int = 0
) -> ErrorCode:
    """The code, or the older one where PRODUCER_FENCED is known since ``fenced`` and
    TRANSACTION_ABORTABLE since ``abortable``."""
    since = {
        ErrorCode.PRODUCER_FENCED: fenced,
        ErrorCode.TRANSACTION_ABORTABLE: abortable,
    }
    return OLDER_CODES[code] if version < since.get(code, 0) else code


async def with_new_id(
    transactional_id: str, command: NewId, broker: Broker
) -> NewId | None:
    """The command, with a new producer id if it may need one; None: there is none now,
    and the client is to ask again."""
    if not broker.transactions.needs_producer_id(transactional_id, command):
        return command
    try:
        new_id = await broker.producer_ids.next()
    except KafkaError:
        return None
    return replace(command, new_producer_id=new_id)
