"""What only clients before 0.11 ask, answered as Apache Kafka 3.9.1 answers them.

3.9 was the last that served them. ``old_corners.txt`` is what it said
(``tests/support/old_corners.py`` asks). With the address of one in OLD_KAFKA_BOOTSTRAP
it is asked again; ``old_admin_corners.txt`` is what it said to those who administer it.
What is known to differ is not asked, and told in ``broker/apis/README.md``.
"""

import os
from pathlib import Path

import pytest

from tests.support import old_admin
from tests.support.old_corners import table
from tests.support.process import BrokerPart

SAID = Path(__file__).with_name("old_corners.txt")
ADMIN = Path(__file__).with_name("old_admin_corners.txt")
KAFKA = os.environ.get("OLD_KAFKA_BOOTSTRAP", "")


def test_what_only_old_clients_ask_is_answered_as_kafka_did(broker: BrokerPart) -> None:
    assert table(broker.bootstrap) == SAID.read_text().splitlines()


def test_old_administrators_are_answered_as_kafka_did(broker: BrokerPart) -> None:
    assert old_admin.table(broker.bootstrap) == ADMIN.read_text().splitlines()


@pytest.mark.skipif(not KAFKA, reason="no Kafka 3.9 at OLD_KAFKA_BOOTSTRAP")
def test_an_old_kafka_still_says_so() -> None:
    assert table(KAFKA) == SAID.read_text().splitlines()
    assert old_admin.table(KAFKA) == ADMIN.read_text().splitlines()
