"""Configurations of brokers, of the cluster, and across topics."""

from contextlib import closing

import pytest

from admin_api.configs import endpoints
from tests.support.config_requests import BROKER, DELETE, SET, altered
from tests.support.peer import Peer

FIXED = "Cannot update these configs dynamically: [num.partitions]"


@pytest.fixture(scope="module")
def broker(plane):
    [found] = plane.get(f"{plane.cluster}/brokers").json()["data"]
    return found


def test_a_brokers_configurations_are_shown(plane, broker):
    url = broker["configs"]["related"]
    listed = plane.get(url).json()
    assert listed["kind"] == "KafkaBrokerConfigList"
    by_name = {one["name"]: one for one in listed["data"]}
    listener = by_name["advertised.listeners"]
    assert listener["value"].endswith(plane.bootstrap)
    assert listener["broker_id"] == broker["broker_id"]
    assert plane.get(f"{url}/advertised.listeners").json() == listener
    everywhere = plane.get(f"{plane.cluster}/brokers/-/configs").json()
    assert everywhere["data"] == listed["data"]


def test_of_a_brokers_configurations_those_are_altered_that_are_dynamic(plane, broker):
    url = broker["configs"]["related"]
    body = {"data": [{"name": "num.partitions", "value": "3"}]}
    for answer in (
        plane.post(f"{url}:alter", body),
        plane.ask("PUT", f"{url}/num.partitions", json={"value": "3"}),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
        assert FIXED in answer.json()["message"]
    assert plane.get(f"{url}/no.such").status_code == 404
    one = f"{url}/log.message.timestamp.before.max.ms"
    assert plane.ask("PUT", one, json={"value": "12345"}).status_code == 204
    changed = plane.get(one).json()
    assert (changed["value"], changed["source"]) == ("12345", "DYNAMIC_BROKER_CONFIG")
    sources = [synonym["source"] for synonym in changed["synonyms"]]
    assert sources == ["DYNAMIC_BROKER_CONFIG", "DEFAULT_CONFIG"]
    assert plane.ask("DELETE", one).status_code == 204
    assert plane.get(one).json()["source"] == "DEFAULT_CONFIG"


def test_what_was_set_for_all_brokers_is_shown(plane):
    url, name = f"{plane.cluster}/broker-configs", "log.retention.ms"
    assert plane.get(f"{url}/{name}").status_code == 404
    peer = Peer(plane.bootstrap)
    with closing(peer.socket):
        peer.ask(altered(BROKER, "", (name, SET, "86400001")), 1)
        [listed] = plane.get(url).json()["data"]
        assert (listed["name"], listed["value"]) == (name, "86400001")
        assert listed["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        assert plane.get(f"{url}/{name}").json() == listed
        assert plane.ask("DELETE", f"{url}/{name}").json()["error_code"] == 40002
        peer.ask(altered(BROKER, "", (name, DELETE, None)), 1)
    assert plane.get(url).json()["data"] == []


def test_no_configuration_is_set_for_all_brokers(plane):
    url = f"{plane.cluster}/broker-configs"
    listed = plane.get(url).json()
    assert (listed["kind"], listed["data"]) == ("KafkaClusterConfigList", [])
    assert plane.get(f"{url}/num.partitions").status_code == 404
    body = {"data": [{"name": "num.partitions", "value": "3"}]}
    for answer in (
        plane.post(f"{url}:alter", body),
        plane.ask("PUT", f"{url}/num.partitions", json={"value": "3"}),
        plane.ask("DELETE", f"{url}/num.partitions"),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
        why = answer.json()["message"]
        assert FIXED in why or "cannot be made for all brokers" in why


def test_configurations_of_all_topics_come_in_pages_of_topics(plane):
    for name in ("all-a", "all-b", "all-c"):
        plane.create(name)
    url = f"{plane.cluster}/topics/-/configs"
    whole = plane.get(url).json()
    assert whole["metadata"] == {"self": url, "next": None}
    names = {one["topic_name"] for one in whole["data"]}
    assert {"all-a", "all-b", "all-c"} <= names
    found, following = [], f"{url}?page_size=2"
    while following:
        page = plane.get(following).json()
        assert len({one["topic_name"] for one in page["data"]}) <= 2
        found += page["data"]
        following = page["metadata"]["next"]
    assert found == whole["data"]


def test_a_page_of_configurations_is_never_larger_than_its_bound(plane, monkeypatch):
    monkeypatch.setattr(endpoints, "TOPICS_A_PAGE_MAX", 1)
    plane.create("bound-a")
    plane.create("bound-b")
    page = plane.get(f"{plane.cluster}/topics/-/configs?page_size=10000").json()
    assert len({one["topic_name"] for one in page["data"]}) == 1
    rest = plane.get(page["metadata"]["next"]).json()
    assert rest["data"][0]["topic_name"] > page["data"][0]["topic_name"]


def alteration(topic, name="retention.ms", value="9000"):
    return {"topic_name": topic, "configs": [{"name": name, "value": value}]}


def retention(plane, topic):
    return plane.get(f"{plane.cluster}/topics/{topic}/configs/retention.ms").json()


def test_each_topic_of_a_batch_succeeds_or_fails_by_itself(plane):
    plane.create("batch-a")
    url = f"{plane.cluster}/topics/-/configs:alter"
    assert plane.post(url, {"data": [alteration("batch-a")]}).status_code == 204
    assert retention(plane, "batch-a")["value"] == "9000"
    body = {
        "data": [
            alteration("batch-a", value="8000"),
            alteration("nobody"),
            alteration("batch-a", "no.such"),
            alteration("a b"),
        ]
    }
    answer = plane.post(url, body)
    assert answer.status_code == 207
    failures = answer.json()["failures"]
    assert [(one["topic_name"], one["error_code"]) for one in failures] == [
        ("nobody", 40403),
        ("batch-a", 404),
        ("a b", 40002),
    ]
    assert all(one["message"] for one in failures)
    assert retention(plane, "batch-a")["value"] == "8000"
    dry = {"data": [alteration("batch-a", value="1")], "validate_only": True}
    assert plane.post(url, dry).status_code == 204
    assert retention(plane, "batch-a")["value"] == "8000"


def test_a_broker_that_does_not_answer_is_a_503_and_no_bad_name(lonely):
    answer = lonely.post(
        "/v3/clusters/c/topics/-/configs:alter", {"data": [alteration("a")]}
    )
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)


def test_null_is_what_is_left_out(plane):
    own = plane.create("null-configs")
    entry = {"name": "retention.ms", "value": "5000", "operation": None}
    body = {"data": [entry], "validate_only": None}
    altered = plane.post(f"{own}/configs:alter", body)
    assert altered.status_code == 204, altered.text
    of_topic = {"topic_name": "null-configs", "configs": [entry]}
    body = {"data": [of_topic], "validate_only": None}
    several = plane.post(f"{plane.cluster}/topics/-/configs:alter", body)
    assert several.status_code == 204, several.text


def test_the_configurations_of_a_topic_to_be_are_shown(plane, broker):
    """Those that a topic has which says nothing itself, whatever its broker says."""
    own = f"{plane.cluster}/topics/to-be"
    changed = f"{broker['configs']['related']}/log.retention.ms"
    assert plane.ask("PUT", changed, json={"value": "7777"}).status_code == 204
    before = plane.get(f"{own}/default-configs").json()
    made = plane.create("to-be")
    assert made == own
    after = plane.get(f"{own}/configs").json()
    assert before["metadata"]["self"] == f"{own}/default-configs"
    assert before["kind"] == after["kind"]
    assert before["data"] == after["data"]
    [retention] = [one for one in before["data"] if one["name"] == "retention.ms"]
    assert (retention["value"], retention["source"]) == (
        "7777",
        "DYNAMIC_BROKER_CONFIG",
    )
    assert plane.ask("DELETE", changed).status_code == 204
    bad = plane.get(f"{plane.cluster}/topics/a%20b/default-configs")
    assert bad.json()["error_code"] == 40002


@pytest.mark.parametrize("names", [[""], ["log.retention.ms", ""]])
@pytest.mark.parametrize("path", ["broker-configs", "brokers/1/configs"])
def test_a_setting_without_a_name_is_a_404(plane, path, names):
    body = {"data": [{"name": name, "value": "1"} for name in names]}
    answer = plane.post(f"{plane.cluster}/{path}:alter", body)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404), answer.text
