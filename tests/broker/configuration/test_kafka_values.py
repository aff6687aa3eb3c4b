"""Kafka's forms of values become ours, or are refused with what is allowed."""

import pytest

from broker.configuration.kafka_values import from_kafka

MAP = {
    "controller.listener.names": "controller",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT, inside:plaintext, OUT:SSL",
}


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("PLAINTEXT://h:1", "h:1"),
        ("plaintext://:1", "0.0.0.0:1"),
        ("PLAINTEXT://[::1]:1", "[::1]:1"),
        ("INSIDE://h:1 , CONTROLLER://:2,", "h:1"),
    ],
)
def test_the_clients_listener_is_an_address(given: str, address: str) -> None:
    assert from_kafka("listeners", given, MAP) == address


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "one listener for clients"),
        ("CONTROLLER://:1", "one listener for clients"),
        ("PLAINTEXT://:1,INSIDE://:2", "one listener for clients"),
        ("OUT://:1", "OUT speaks SSL"),
        ("SASL_PLAINTEXT://:1", "SASL_PLAINTEXT speaks SASL_PLAINTEXT"),
        ("ELSE://:1", r"ELSE is not in listener\.security\.protocol\.map"),
        ("h:1", "NAME://HOST:PORT, not h:1"),
        ("PLAINTEXT://h", "NAME://HOST:PORT"),
    ],
)
def test_what_is_not_one_listener_in_the_clear_is_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_kafka("listeners", given, MAP)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_clients_are_told_a_host_that_is_one(host: str) -> None:
    assert from_kafka("advertised.listeners", "PLAINTEXT://h:1", {}) == "h:1"
    with pytest.raises(ValueError, match="should name a host"):
        from_kafka("advertised.listeners", f"PLAINTEXT://{host}:1", {})


def test_times_are_whole_units_and_minus_one_is_for_ever() -> None:
    assert from_kafka("log.retention.hours", " 2 ", {}) == 7_200_000
    assert from_kafka("log.retention.minutes", 3, {}) == 180_000
    assert from_kafka("log.retention.hours", "-1", {}) == -1
    for wrong in ("-2", "1.5", "", True, "9" * 5_000):
        with pytest.raises(ValueError, match="whole number of -1 or more"):
            from_kafka("log.retention.minutes", wrong, {})


def test_what_has_one_form_stays_as_it_is_without_blanks() -> None:
    assert from_kafka("num.partitions", " 3 ", {}) == "3"
    assert from_kafka("num.partitions", 3, {}) == 3
