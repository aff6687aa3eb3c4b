"""What administrators ask, answered as Apache Kafka 4.3.1 answers it.

``admin_corners.txt`` and ``config_corners.txt`` are what a Kafka said
(``tests/support/admin_requests.py`` and ``config_requests.py`` ask). With the address
of one in KAFKA_BOOTSTRAP it is asked again; it should serve what is unstable
(unstable.api.versions.enable=true).
"""

import os
from pathlib import Path

import pytest

from tests.support import admin_requests, config_requests
from tests.support.process import BrokerPart

ADMIN = Path(__file__).with_name("admin_corners.txt")
CONFIGS = Path(__file__).with_name("config_corners.txt")
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")
SETTLED_S = 0.5
"""A Kafka answers a change before its broker has followed it."""


def test_the_corners_of_administration_are_kafkas(broker: BrokerPart) -> None:
    assert admin_requests.table(broker.bootstrap) == ADMIN.read_text().splitlines()


def test_the_corners_of_configurations_are_kafkas(broker: BrokerPart) -> None:
    assert config_requests.table(broker.bootstrap) == CONFIGS.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so() -> None:
    assert admin_requests.table(KAFKA) == ADMIN.read_text().splitlines()
    said = config_requests.table(KAFKA, SETTLED_S)
    assert said == CONFIGS.read_text().splitlines()
