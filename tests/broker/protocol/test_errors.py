"""Error codes are Kafka's, by number and name."""

from kio.schema.errors import ErrorCode as KioErrorCode

from broker.protocol.errors import ErrorCode, KafkaError


def test_codes_are_kafkas():
    ours = {code.name: int(code) for code in ErrorCode}
    theirs = {c.name.upper(): int(c) for c in KioErrorCode}
    assert ours == theirs


def test_an_error_says_its_code_and_its_reason():
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: -5")
    assert str(error) == "INVALID_CONFIG: retention.ms: -5"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
    assert error.code == 40
