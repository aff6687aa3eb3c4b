"""The corners of the group APIs, answered as Apache Kafka 4.3.1 answers them.

``group_corners.txt`` is what a Kafka said (``tests/support/corners.py`` asks). With the
address of one in KAFKA_BOOTSTRAP it is asked again; it should have no initial delay
of rebalances (group.initial.rebalance.delay.ms=0), or it takes minutes.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.corners import table
from tests.support.process import BrokerPart

SAID = Path(__file__).with_name("group_corners.txt")
KAFKA = os.environ.get("KAFKA_BOOTSTRAP", "")


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[BrokerPart]:
    """A broker that does not wait for company."""
    part = BrokerPart(tmp_path / "data", "groups.initial_rebalance_delay_ms=0")
    part.start()
    yield part
    part.end()


def test_the_corners_of_groups_are_kafkas(prompt: BrokerPart) -> None:
    assert table(prompt.bootstrap) == SAID.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka at KAFKA_BOOTSTRAP")
def test_a_kafka_still_says_so() -> None:
    assert table(KAFKA) == SAID.read_text().splitlines()
