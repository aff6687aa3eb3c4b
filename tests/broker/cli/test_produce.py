"""Lines become records."""

import pytest
from confluent_kafka import KafkaError

from broker.cli.failures import UserError
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


def test_deliveries_count_and_remember_the_first_line_refused():
    told = Deliveries()
    told(1, None, object())
    told(4, KafkaError(KafkaError.INVALID_MSG, "other"), object())
    told(3, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), object())
    told(2, None, object())
    assert told.acknowledged == 2
    said = r"^line 3: too large; the 2 before it are stored$"
    with pytest.raises(UserError, match=said):
        told.check()
    told(5, None, object())
    with pytest.raises(
        UserError, match=r"before it are stored; 1 after it are stored$"
    ):
        told.check()


def test_where_nothing_was_refused_nothing_is_said():
    told = Deliveries()
    told(1, None, object())
    told.check()
