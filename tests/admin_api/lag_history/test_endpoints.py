"""Lag over time of a group of a real broker."""

import asyncio

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
