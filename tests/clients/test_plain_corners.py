"""Each API in each version, and frames that are none, as Apache Kafka 4.3.1 answers.

``plain_corners.txt`` is what a Kafka said (``tests/support/plain_groups.py`` asks).
With the address of one in KAFKA_BOOTSTRAP it is asked again; it should serve what is
unstable (unstable.api.versions.enable=true).
"""

import os
from pathlib import Path

import pytest

from tests.support.plain_groups import table
from tests.support.process import BrokerPart

SAID = Path(__file__).with_name("plain_corners.txt")
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")
SETTLED_S = 0.5
"""A Kafka answers a change before its broker has followed it."""


def test_plain_requests_are_answered_as_kafka_does(broker: BrokerPart) -> None:
    assert table(broker.bootstrap) == SAID.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so() -> None:
    assert table(KAFKA, SETTLED_S) == SAID.read_text().splitlines()
