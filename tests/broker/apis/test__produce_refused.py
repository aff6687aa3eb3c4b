"""How a refusal stands in an answer, and no code that the client cannot know."""

import pytest

from broker.apis._produce_refused import refuse
from broker.protocol.errors import ErrorCode, KafkaError
from broker.protocol.messages.produce import PartitionProduceResponse


def test_a_refusal_names_the_records_at_fault() -> None:
    answer = PartitionProduceResponse(3, 0, 17, -1, 5)
    refuse(answer, KafkaError(ErrorCode.INVALID_RECORD, "why", ((2, "no key"),)), 8, 4)
    assert (answer.error_code, answer.error_message) == (87, "why")
    assert (answer.base_offset, answer.log_start_offset) == (-1, 4)
    (record,) = answer.record_errors
    assert (record.batch_index, record.batch_index_error_message) == (2, "no key")


def test_so_many_records_are_named_as_there_is_room_and_none_to_old_clients() -> None:
    error = KafkaError(ErrorCode.INVALID_RECORD, "why", ((2, "no key"), (3, "no key")))
    for version, room, named in ((8, 9, [2, 3]), (8, 1, [2]), (8, 0, []), (7, 9, [])):
        answer = PartitionProduceResponse(3)
        refuse(answer, error, version, errors_max=room)
        assert [one.batch_index for one in answer.record_errors] == named


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.INVALID_RECORD, 4),
        (ErrorCode.INVALID_TIMESTAMP, 4),
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 4),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 4),
    ],
)
def test_where_the_log_begins_is_told_if_the_log_refused(
    code: ErrorCode, told: int
) -> None:
    answer = PartitionProduceResponse(3, 0, 17, -1, 5)
    refuse(answer, KafkaError(code), 8, 4)
    assert answer.log_start_offset == told


@pytest.mark.parametrize(("version", "code"), [(3, 6), (4, 56)])
def test_an_old_client_is_not_told_a_newer_code(version: int, code: int) -> None:
    answer = PartitionProduceResponse(0)
    refuse(answer, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), version)
    assert answer.error_code == code
