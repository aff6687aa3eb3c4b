"""Lag over time of a group of a real broker."""

import asyncio

from admin_api.lag_history import recorder
from admin_api.lag_history.ring import LagRing
from tests.support.confluent import produce_all

URL = "/v1/groups/followed/lag/history"


def record(plane):
    asyncio.run(plane.app.state.lag_recorder.record())


def values(points):
    return [point["lag"] for point in points]


def test_a_group_that_falls_behind_is_seen_to(plane):
    assert plane.get(URL).status_code == 404
    plane.create("followed", 2)
    topics = [{"topic_name": "followed"}]
    body = {"to": "EARLIEST", "topics": topics, "dry_run": False}
    assert plane.post("/v1/groups/followed:reset-offsets", body).is_success
    record(plane)
    produce_all(
        plane.bootstrap, "followed", [(None, b"v", None, n % 2) for n in range(5)]
    )
    record(plane)
    found = plane.get(URL).json()
    assert found["interval_ms"] == 60_000
    assert values(found["total"]) == [0, 5]
    [row] = found["data"]
    assert (row["topic_name"], row["partition_id"]) == ("followed", None)
    parts = plane.get(f"{URL}?topic_name=followed&minutes=360").json()["data"]
    assert [(p["partition_id"], values(p["points"])) for p in parts] == [
        (0, [0, 3]),
        (1, [0, 2]),
    ]
    assert plane.get(f"{URL}?topic_name=other").status_code == 404
    assert plane.get(f"{URL}?minutes=0").status_code == 400


def test_what_there_is_no_room_for_is_said(plane, monkeypatch):
    """By name: of two groups the second, of three partitions the last."""
    plane.create("roomy", 3)
    body = {"to": "EARLIEST", "topics": [{"topic_name": "roomy"}], "dry_run": False}
    for group in ("a-first", "b-second"):
        url = f"/v1/groups/{group}:reset-offsets"
        assert plane.post(url, body).is_success
    url = "/v1/groups/{}/lag/history".format
    record(plane)
    found = plane.get(url("a-first")).json()
    assert found["left_out"] == {"groups": 0, "partitions": 0}
    recording = plane.app.state.lag_recorder
    monkeypatch.setattr(recording, "ring", LagRing(10, 2))
    monkeypatch.setattr(recording, "left_out", None)
    monkeypatch.setattr(recorder, "GROUPS_MAX", 1)
    monkeypatch.setattr(recorder, "SERIES_MAX", 2)
    record(plane)
    groups = len(asyncio.run(plane.app.state.kafka.groups()))
    found = plane.get(url("a-first")).json()
    assert found["left_out"] == {"groups": groups - 1, "partitions": 1}
    missing = plane.get(url("b-second"))
    assert missing.status_code == 404
    assert f"{groups - 1} groups and 1 partitions are left out" in missing.text
    metrics = plane.get("/metrics").text
    assert f"lakelog_lag_history_left_out_groups {groups - 1}.0" in metrics
    assert "lakelog_lag_history_left_out_partitions 1.0" in metrics
