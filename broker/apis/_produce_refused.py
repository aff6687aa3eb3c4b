"""How a refused batch is told in the answer to a Produce."""

from broker.apis._message_sets import NEWEST_OF_MESSAGE_SETS
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
)

BATCHES_SINCE = 3
STORAGE_ERROR_SINCE = 4
_REFUSED_BY_THE_LOG = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


def refuse(
    answer: PartitionProduceResponse,
    error: KafkaError,
    version: int,
    log_start: int = -1,
) -> None:
    """Put the error, and the records at fault, into a partition's answer.

    Where the log begins stands there if it was the log that looked at records or
    producer, as in Kafka (``ReplicaManager.processFailedRecord``).
    """
    answer.error_code = _known_code(error.code, version)
    answer.base_offset = -1
    by_the_log = bool(error.records) or error.code in _REFUSED_BY_THE_LOG
    answer.log_start_offset = log_start if by_the_log else -1
    answer.error_message = error.message or None
    answer.record_errors = [BatchIndexAndErrorMessage(*one) for one in error.records]


def _known_code(code: ErrorCode, version: int) -> ErrorCode:
    """No code that is newer than the client's version (``ProduceResponse.java``)."""
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_SINCE:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version < BATCHES_SINCE and code > NEWEST_OF_MESSAGE_SETS:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code
