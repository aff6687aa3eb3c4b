"""What administrators ask, answered as Apache Kafka 4.3.1 answers it.

``admin_corners.txt`` is what a Kafka said (``tests/support/admin_corners.py`` asks).
With the address of one in KAFKA_BOOTSTRAP it is asked again; it should serve what is
unstable (unstable.api.versions.enable=true).
"""

import os
from pathlib import Path

import pytest

from tests.support.admin_requests import table
from tests.support.process import BrokerPart

SAID = Path(__file__).with_name("admin_corners.txt")
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")


def test_the_corners_of_administration_are_kafkas(broker: BrokerPart) -> None:
    assert table(broker.bootstrap) == SAID.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so() -> None:
    assert table(KAFKA) == SAID.read_text().splitlines()
