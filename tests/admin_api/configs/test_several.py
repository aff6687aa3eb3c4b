"""Many topics are altered with as many questions as one."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from admin_api.configs import several
from tests.admin_api.conftest import Plane

TOPICS = 60


class Counting:
    """librdkafka's client, and how often it was asked."""

    def __init__(self, client: Any) -> None:
        self._client, self.asked = client, 0

    def __getattr__(self, name: str) -> Any:
        self.asked += 1
        return getattr(self._client, name)


@pytest.fixture(scope="module")
def names(plane: Plane) -> list[str]:
    made = [f"several-{n}" for n in range(TOPICS)]
    for name in made:
        plane.create(name)
    return made


def alterations(
    names: list[str], value: str, config: str = "retention.ms"
) -> Mapping[str, Any]:
    entry = {"name": config, "value": value}
    return {"data": [{"topic_name": name, "configs": [entry]} for name in names]}


def retention_of(plane: Plane, name: str) -> str:
    own = f"{plane.cluster}/topics/{name}/configs/retention.ms"
    value: str = plane.get(own).json()["value"]
    return value


def test_all_topics_are_asked_for_at_once(
    plane: Plane, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{plane.cluster}/topics/-/configs:alter"
    kafka = plane.app.state.kafka
    counting = Counting(kafka._client)
    monkeypatch.setattr(kafka, "_client", counting)
    answer = plane.post(url, alterations([*names, "nobody"], "9000"))
    assert answer.status_code == 207
    [failure] = answer.json()["failures"]
    assert (failure["topic_name"], failure["error_code"]) == ("nobody", 40403)
    assert counting.asked <= 4, "the cluster, the topics, their configurations, twice"
    assert {retention_of(plane, name) for name in names[::20]} == {"9000"}


def test_a_topic_that_goes_meanwhile_does_not_say_which_configurations_there_are(
    plane: Plane, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, describe = f"{plane.cluster}/topics/-/configs:alter", several.describe

    async def without_the_first(kafka: Any, own: Any) -> Mapping[str, Any]:
        if own.name == names[0]:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return await describe(kafka, own)

    monkeypatch.setattr(several, "describe", without_the_first)
    answer = plane.post(url, alterations(names[:2], "7000"))
    assert answer.status_code == 204, answer.text
    assert retention_of(plane, names[1]) == "7000"


def test_a_topic_that_is_named_twice_is_altered_twice(
    plane: Plane, names: list[str]
) -> None:
    url, [first, second, *_] = f"{plane.cluster}/topics/-/configs:alter", names
    once = alterations([first, second], "1000")["data"]
    again = alterations([first], "2000")["data"]
    unknown = alterations([second], "1", "no.such")["data"]
    answer = plane.post(url, {"data": [*once, *again, *unknown]})
    assert answer.status_code == 207
    assert [one["error_code"] for one in answer.json()["failures"]] == [404]
    assert [retention_of(plane, name) for name in (first, second)] == ["2000", "1000"]


def test_where_no_topic_is_there_each_is_a_failure(plane: Plane) -> None:
    url = f"{plane.cluster}/topics/-/configs:alter"
    answer = plane.post(url, alterations(["nobody", "nobody-else", "a b"], "1"))
    assert [one["error_code"] for one in answer.json()["failures"]] == [
        40403,
        40403,
        40002,
    ]
    empty = {"data": [{"topic_name": "nobody", "configs": []}]}
    assert plane.post(url, empty).json()["failures"][0]["error_code"] == 40403


def test_topics_that_are_asked_for_and_not_there_have_a_reason(plane: Plane) -> None:
    missing = asyncio.run(plane.app.state.kafka.missing_topics(["nobody"]))
    assert [*missing] == ["nobody"]
    assert asyncio.run(plane.app.state.kafka.missing_topics([])) == {}
