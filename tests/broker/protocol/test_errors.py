"""Error codes are Kafka's, by number and name."""

from kio.schema.errors import ErrorCode as KioErrorCode

from broker.protocol.errors import ErrorCode, KafkaError, storage_error_since


def test_codes_are_kafkas():
    ours = {code.name: int(code) for code in ErrorCode}
    theirs = {c.name.upper(): int(c) for c in KioErrorCode}
    assert ours == theirs


def test_an_error_says_its_code_and_its_reason():
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: -5")
    assert str(error) == "INVALID_CONFIG: retention.ms: -5"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
    assert error.code == 40


def test_a_version_before_the_storage_error_is_told_to_look_for_the_leader():
    full, old = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = [storage_error_since(4, full, version) for version in (0, 3, 4, 9)]
    assert told == [old, old, full, full]
    other = ErrorCode.CORRUPT_MESSAGE
    assert storage_error_since(4, other, 0) is other
