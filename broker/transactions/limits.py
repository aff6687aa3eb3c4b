"""What a coordinator allows its transactions: Kafka's ``transaction.*`` values.

The machine takes them as one frozen value, so that a test can have transactions that
last three milliseconds.
"""

from dataclasses import dataclass

from broker.transactions.metadata import V2

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_DAY_MS = 24 * 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Kafka's defaults; times in milliseconds.

    ``version`` is the finalized feature ``transaction.version`` that clients are told;
    how a transaction ends goes by what its producer spoke. ``ids_max``,
    ``completion_delay_ms`` and ``retry_ms`` are ours.
    ``resumed_ms`` is ``transaction.abort.timed.out.transaction.cleanup.interval.ms``,
    as far as Kafka's first look behind a start goes.
    """

    timeout_max_ms: int = 15 * _MINUTE_MS
    id_expiration_ms: int = 7 * _DAY_MS
    version: int = V2
    # How many ids there may be: each takes about 3 KB of memory for as long as it is
    # kept, and 1 KB more while its transaction is open.
    ids_max: int = 100_000
    # What the ids of a transaction's groups may take together: each part that is added
    # writes them all again. Kafka's limit is that of a record, which has them too.
    groups_bytes_max: int = 1 << 20
    # How long the row of a complete transaction is behind (see README): mostly the
    # next transaction comes first, and its row says more.
    completion_delay_ms: int = _SECOND_MS
    # How long at least an open transaction goes on behind a start: its producer could
    # not end it before, and may be about to.
    resumed_ms: int = 10 * _SECOND_MS
    # When what the catalog refused is tried again.
    retry_ms: int = _SECOND_MS
