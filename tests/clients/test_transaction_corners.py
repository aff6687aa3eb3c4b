"""Whole lives of transactions, answered as Apache Kafka 4.3.1 answers them.

``transaction_corners.txt`` is what a Kafka said (``tests/support/transaction_lives.py``
asks), ``transaction_corners_1.txt`` what it said with ``transaction.version`` at 1.
With the address of one in KAFKA_BOOTSTRAP it is asked again.
"""

import os
from pathlib import Path

import pytest

from tests.support.process import BrokerPart
from tests.support.transaction_lives import table

SAID = {
    2: Path(__file__).with_name("transaction_corners.txt"),
    1: Path(__file__).with_name("transaction_corners_1.txt"),
}
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")
SETTLED_S = 1.0
"""A Kafka answers a change before its broker has followed it."""


@pytest.mark.parametrize("level", SAID)
def test_the_lives_of_transactions_are_kafkas(broker: BrokerPart, level: int) -> None:
    assert table(broker.bootstrap, level) == SAID[level].read_text().splitlines()


@pytest.mark.parametrize("level", SAID)
@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so(level: int) -> None:
    assert table(KAFKA, level, SETTLED_S) == SAID[level].read_text().splitlines()
