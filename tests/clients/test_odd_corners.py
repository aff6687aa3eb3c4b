"""Fields with odd values, answered as Apache Kafka 4.3.1 answers them.

``odd_corners.txt`` is what a Kafka said (``tests/support/odd_requests.py`` asks). With
the address of one in KAFKA_BOOTSTRAP it is asked again.
"""

import os
from pathlib import Path

import pytest

from tests.support.odd_requests import table
from tests.support.process import BrokerPart

SAID = Path(__file__).with_name("odd_corners.txt")
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")
SETTLED_S = 0.5
"""A Kafka answers a change before its broker has followed it."""


def test_the_corners_of_odd_values_are_kafkas(broker: BrokerPart) -> None:
    assert table(broker.bootstrap) == SAID.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so() -> None:
    assert table(KAFKA, SETTLED_S) == SAID.read_text().splitlines()
