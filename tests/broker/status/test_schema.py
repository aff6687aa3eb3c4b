"""What is counted has a sentence, and a name that Prometheus takes."""

from dataclasses import fields

import pytest

from broker.status.schema import COUNTERS_HELP, BrokerStatus, CompactorStatus, WalState


def test_counters_end_in_total_and_are_explained() -> None:
    for name, sentence in COUNTERS_HELP.items():
        assert name.endswith("_total")
        assert sentence.endswith(".")


@pytest.mark.parametrize("kind", [BrokerStatus, CompactorStatus, WalState])
def test_no_gauge_is_called_a_counter(kind: type) -> None:
    assert not [one.name for one in fields(kind) if one.name.endswith("_total")]
