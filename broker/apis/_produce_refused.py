"""How a refused batch is told in the answer to a Produce."""

from broker.apis._message_sets import known_code
from broker.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotAppended,
    storage_error_since,
)
from broker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
)
from broker.records.limits import RECORD_ERRORS_MAX

BATCHES_SINCE = 3
STORAGE_ERROR_SINCE = 4
RECORD_ERRORS_SINCE = 8
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def refuse(
    answer: PartitionProduceResponse,
    error: KafkaError,
    version: int,
    log_start: int = -1,
    errors_max: int = RECORD_ERRORS_MAX,
) -> None:
    """Put the error, and the first ``errors_max`` records at fault, into a partition's
    answer.

    ``log_start`` is where the log begins, if there is one. It stands there where Kafka
    says it: for what a log found wrong, but for a few codes
    (``ReplicaManager.appendToLocalLog``).
    """
    answer.error_code = _known_code(error.code, version)
    answer.base_offset = -1
    open_ = isinstance(error, NotAppended) or error.code in _WITHOUT_LOG_START
    answer.log_start_offset = -1 if open_ else log_start
    answer.error_message = error.message or None
    if version >= RECORD_ERRORS_SINCE:
        named = error.records[:errors_max]
        answer.record_errors = [BatchIndexAndErrorMessage(*one) for one in named]


def _known_code(code: ErrorCode, version: int) -> ErrorCode:
    """No code that is newer than the client's version (``ProduceResponse.java``)."""
    code = storage_error_since(STORAGE_ERROR_SINCE, code, version)
    return known_code(code) if version < BATCHES_SINCE else code
