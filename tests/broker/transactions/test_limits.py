"""The limits: Kafka's defaults."""

from broker.transactions.limits import TransactionLimits


def test_the_defaults_are_kafkas() -> None:
    limits = TransactionLimits()
    assert limits.timeout_max_ms == 900_000
    assert limits.id_expiration_ms == 604_800_000
    assert limits.version == 2
