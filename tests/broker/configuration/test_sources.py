"""What each place gives, and which variables are nobody's settings."""

from pathlib import Path

import pytest

from broker.configuration.sources import Place, given


def names(environment: dict[str, str]) -> list[str]:
    return [one.name for one in given({}, environment, None)]


def test_places_come_in_the_order_in_which_they_win(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[a]\nb = 1\n")
    found = list(given({"c": "3"}, {"LAKELOG_B": "2", "PATH": "x"}, file))
    assert [(one.name, one.value, one.place) for one in found] == [
        ("a.b", 1, Place.FILE), ("B", "2", Place.ENVIRONMENT), ("c", "3", Place.FLAG),
    ]  # fmt: skip
    assert [one.origin for one in found] == [str(file), "LAKELOG_B", "flag"]


def test_the_environment_is_spelled_as_in_kafkas_images() -> None:
    given_ = {"KAFKA_NUM_PARTITIONS": "1", "KAFKA_A__B___C_D": "1"}
    assert names(given_) == ["num.partitions", "a_b-c.d"]


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_HOME", "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_PORT", "KAFKA_JMX_HOSTNAME",
        "KAFKA_CLUSTER_ID", "KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT_CLIENT",
        "KAFKA_PORT", "KAFKA_PORT_9092_TCP_ADDR", "KAFKA_HEADLESS_PORT_9092_TCP",
        "LAKELOG_FAILPOINTS", "LAKELOG_PARENT", "LAKELOG_REPORTED", "OTHER",
    ],
)  # fmt: skip
def test_variables_of_tools_and_of_service_links_are_passed_over(variable: str) -> None:
    assert names({variable: "x"}) == []
