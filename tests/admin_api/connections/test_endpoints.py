"""Connections of a real broker."""

from confluent_kafka.admin import AdminClient

from tests.support.confluent import produce_all
from tests.support.patience import wait_until


def connections(plane):
    answer = plane.get("/v1/connections")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_client_is_seen_with_what_it_says_and_sends(plane):
    plane.create("seen")
    produce_all(plane.bootstrap, "seen", [(None, b"x" * 5_000, None, 0)])
    client = AdminClient({"bootstrap.servers": plane.bootstrap, "client.id": "watched"})
    client.list_topics(timeout=60)

    def of_it():
        return [one for one in connections(plane) if one["client_id"] == "watched"]

    wait_until(of_it)
    found = of_it()[0]
    assert found["software_name"] == "confluent-kafka-python"
    assert found["bytes_in"] > 0
    assert found["bytes_out"] > 0
    assert found["idle_ms"] <= found["age_ms"]
    del client
    wait_until(lambda: not of_it())


def test_pages_lead_on(plane):
    assert plane.cluster  # by a connection of the plane's own
    first = plane.get("/v1/connections?page_size=1").json()
    assert len(first["data"]) == 1
    every = connections(plane)
    assert [one["address"] for one in every] == sorted(one["address"] for one in every)


def test_without_a_broker_it_is_a_503_with_the_reason(lonely):
    for path in ("/v1/connections", "/v1/loggers", "/v1/loggers/lakelog"):
        answer = lonely.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50303)
        assert "internal endpoint" in answer.json()["message"]
