"""The five routes of an owner, on a topic of a real broker."""

import pytest


@pytest.fixture
def configs(plane, request):
    name = request.node.name.split("[")[0][-40:]
    topic = plane.create(name, 1, **{"retention.ms": "5000"})
    yield plane.get(topic).json()["configs"]["related"]
    plane.ask("DELETE", topic)


def value(plane, configs, name):
    answer = plane.get(f"{configs}/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()["value"]


def test_configurations_are_listed_and_got_by_name(plane, configs):
    listed = plane.get(configs).json()
    assert listed["kind"] == "KafkaTopicConfigList"
    by_name = {one["name"]: one for one in listed["data"]}
    assert list(by_name) == sorted(by_name)
    changed = by_name["retention.ms"]
    assert (changed["value"], changed["source"]) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    assert (changed["is_default"], changed["is_sensitive"]) == (False, False)
    assert plane.get(changed["metadata"]["self"]).json() == changed
    default = by_name["cleanup.policy"]
    assert (default["value"], default["source"]) == ("delete", "DEFAULT_CONFIG")
    assert default["is_default"]


def test_a_configuration_is_set_and_reset(plane, configs):
    url = f"{configs}/retention.ms"
    answer = plane.ask("PUT", url, json={"value": "7000"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert value(plane, configs, "retention.ms") == "7000"
    assert plane.ask("DELETE", url).status_code == 204
    assert value(plane, configs, "retention.ms") == "604800000"


def test_several_are_altered_together(plane, configs):
    body = {
        "data": [
            {"name": "retention.ms", "operation": "DELETE"},
            {"name": "retention.bytes", "value": "123"},
        ]
    }
    dry = plane.post(f"{configs}:alter", body | {"validate_only": True})
    assert dry.status_code == 204
    assert value(plane, configs, "retention.bytes") == "-1"
    assert plane.post(f"{configs}:alter", body).status_code == 204
    assert value(plane, configs, "retention.bytes") == "123"
    assert value(plane, configs, "retention.ms") == "604800000"


@pytest.mark.parametrize(
    ("name", "said", "kept"),
    [
        ("retention.ms", 7000, "7000"),
        ("preallocate", True, "true"),
        ("min.cleanable.dirty.ratio", 0.25, "0.25"),
    ],
)
def test_a_number_and_a_boolean_are_taken_as_their_texts(
    plane, configs, name, said, kept
):
    """As by Jackson, which reads for Confluent's proxy."""
    body = {"data": [{"name": name, "value": said}]}
    answer = plane.post(f"{configs}:alter", body)
    assert answer.status_code == 204, answer.text
    assert value(plane, configs, name) == kept
    assert plane.ask("DELETE", f"{configs}/{name}").status_code == 204
    put = plane.ask("PUT", f"{configs}/{name}", json={"value": said})
    assert put.status_code == 204, put.text
    assert value(plane, configs, name) == kept
    made = {"topic_name": f"of-{kept}", "configs": [{"name": name, "value": said}]}
    created = plane.post(f"{plane.cluster}/topics", made).json()
    assert value(plane, created["configs"]["related"], name) == kept


def test_one_wrong_value_alters_nothing(plane, configs):
    body = {
        "data": [
            {"name": "retention.bytes", "value": "123"},
            {"name": "retention.ms", "value": "a"},
        ]
    }
    answer = plane.post(f"{configs}:alter", body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
    assert "retention.ms" in answer.json()["message"]
    assert value(plane, configs, "retention.bytes") == "-1"


def test_a_name_that_nobody_knows_is_a_404(plane, configs):
    body = {"data": [{"name": "no.such", "value": "1"}]}
    for answer in (
        plane.get(f"{configs}/no.such"),
        plane.ask("PUT", f"{configs}/no.such", json={"value": "1"}),
        plane.ask("DELETE", f"{configs}/no.such"),
        plane.post(f"{configs}:alter", body),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (404, 404)
        assert "Config no.such cannot be found for TOPIC" in answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"data": [{"name": "retention.ms", "operation": "APPEND"}]}, 400),
        ({"data": [{"value": "1"}]}, 400),
        ({"data": {}}, 400),
        ({}, 400),
        ({"data": [], "more": 1}, 400),
        ({"data": [{"name": "retention.ms", "value": "1\0"}]}, 400),
        ({"data": [{"name": "retention.ms", "value": [1]}]}, 400),
        ({"data": [{"name": "retention.ms", "value": {}}]}, 400),
        ({"data": [{"name": "retention.ms", "value": "1"}] * 2}, 400),
        ({"data": [{"name": "retention.ms"}]}, 400),
        ({"data": []}, 204),
    ],
)
def test_a_body_that_cannot_be_is_refused_in_words(plane, configs, body, status):
    answer = plane.post(f"{configs}:alter", body)
    assert answer.status_code == status, answer.text
    assert value(plane, configs, "retention.ms") == "5000"
