"""Lines become records."""

import pytest
from confluent_kafka import KafkaError

from broker.cli.produce import Deliveries, split


@pytest.mark.parametrize(
    ("line", "separator", "record"),
    [
        (b"a:b", None, (None, b"a:b")),
        (b"a:b", b":", (b"a", b"b")),
        (b"a:b:c", b":", (b"a", b"b:c")),
        (b"ab", b":", (None, b"ab")),
        (b":b", b":", (b"", b"b")),
        (b"a:", b":", (b"a", b"")),
        (b"", b":", (None, b"")),
        (b"a=>b", b"=>", (b"a", b"b")),
    ],
)
def test_a_separator_splits_key_from_value(line, separator, record):
    assert split(line, separator) == record


def test_deliveries_count_and_remember_the_first_refusal():
    told = Deliveries()
    told(None, object())
    told(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), object())
    told(KafkaError(KafkaError.INVALID_MSG, "other"), object())
    assert (told.acknowledged, told.first_error) == (1, "too large")
