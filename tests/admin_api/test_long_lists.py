"""Long collections are made beside the loop, and look as all others do."""

import asyncio
import threading

import pytest
from fastapi.encoders import jsonable_encoder

from admin_api.brokers import endpoints as brokers
from admin_api.configs import owners
from admin_api.consumer_groups import schemas as lags
from admin_api.long_lists import written
from admin_api.partitions import schemas as partitions
from admin_api.resources import cluster_place
from admin_api.tables import endpoints as tables
from admin_api.topics import endpoints as topics
from admin_api.topics.schemas import TopicList, render


def test_it_is_what_a_model_looks_like():
    place = cluster_place("http://plane", "c")
    made = TopicList(
        metadata=place.listed("topics", "t"), data=[render(place, "c", "t", [1, 1])]
    )
    found = asyncio.run(written(lambda: made))
    assert found.body.decode() == made.model_dump_json(by_alias=True)
    assert found.media_type == "application/json"
    assert made.model_dump(mode="json", by_alias=True) == jsonable_encoder(made)


@pytest.mark.parametrize(
    ("where", "name", "path"),
    [
        (topics, "of_metadata", "/topics"),
        (topics, "of_description", "/topics?include_authorized_operations=true"),
        (brokers, "of_metadata", "/brokers/1/partition-replicas"),
        (partitions, "render", "/topics/long/partitions"),
        (lags, "lag", "/consumer-groups/readers/lags"),
        (owners, "value_fields", "/topics/-/configs"),
        (tables, "summary", "/v1/tables"),
        (tables, "cut", "/v1/tables"),
    ],
)
def test_the_loop_makes_no_entry_of_one(plane, monkeypatch, where, name, path):
    if plane.get(f"{plane.cluster}/topics/long").status_code == 404:
        plane.create("long", 3)
        body = {"to": "LATEST", "topics": [{"topic_name": "long"}], "dry_run": False}
        assert plane.post("/v1/groups/readers:reset-offsets", body).is_success
    made, threads = getattr(where, name), set()

    def noted(*more):
        threads.add(threading.current_thread())
        return made(*more)

    monkeypatch.setattr(where, name, noted)
    answer = plane.get(path if path.startswith("/v1") else plane.cluster + path)
    assert answer.json()["data"]
    assert threads
    assert threading.current_thread() not in threads
