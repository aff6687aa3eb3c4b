"""A table's file is lost after it was committed: everybody who should know is told."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from admin_api.lake import Lake
from tests.admin_api.conftest import Plane
from tests.support.patience import wait_until
from tests.support.process import BrokerPart
from tests.support.server_sent import events
from tests.support.tables import Writer

READABLE = 'lakelog_broker_table_readable{topic="told"}'
TOPICS = ("told", "followed")
"""One for each test: what was read a moment ago is served without its file."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """A broker whose topics stand in their tables alone."""
    part = BrokerPart(tmp_path_factory.mktemp("lost") / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    for topic in TOPICS:
        plane.create(topic)
    plane.close()
    part.stop()
    for topic in TOPICS:
        topic_id = Lake(part.data_dir).topic(topic).id.hex()
        writer = Writer(str(part.data_dir / "tables"), topic, topic_id)
        for first in (0, 10, 20):
            writer.add(0, first, first + 10)
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    yield plane
    plane.close()
    part.end()


@contextmanager
def lost(plane, topic):
    """The file with the offsets from 10 on is away, unless it is put back."""
    lake = Lake(plane.data_dir)
    snapshot = lake.snapshot(lake.topic(topic))
    [file] = [one for one in snapshot.files.values() if one.first_offset == 10]
    path = Path(snapshot.path, file.relative_path)
    os.rename(path, f"{path}.away")
    yield path
    if not path.exists():
        os.rename(f"{path}.away", path)


def read(plane, offset, timeout_ms):
    query = f"offset={offset}&timeout_ms={timeout_ms}"
    return plane.get(f"/v1/topics/told/records?{query}")


def test_health_and_metrics_name_it_until_it_is_back(plane):
    assert READABLE not in plane.get("/metrics").text
    with lost(plane, "told") as path:
        assert read(plane, 10, timeout_ms=3_000).status_code == 409
        wait_until(lambda: str(path) in plane.get("/v1/health").text)
        found = plane.get("/v1/health").json()
        [reason] = [one for one in found["reasons"] if str(path) in one]
        assert "from offset 10 of partition 0 on" in reason
        assert found["status"] == "DOWN"
        assert f"{READABLE} 0.0" in plane.get("/metrics").text
    wait_until(lambda: plane.get("/v1/health").json()["reasons"] == [])
    assert READABLE not in plane.get("/metrics").text
    assert len(read(plane, 0, timeout_ms=30_000).json()["data"]) == 30


def test_a_tail_that_comes_to_it_says_so_and_how_to_read_behind_it(plane):
    url = "/v1/topics/followed/tail"
    with lost(plane, "followed") as path:
        *records, (_, name, said) = events(plane.get(f"{url}?at=0:5").content)
        assert [one[0] for one in records] == [f"0:{n}" for n in range(5, 10)]
        assert (name, said["error_code"]) == ("problem", 40900)
        assert path.name in said["message"]
        assert said["message"].endswith("with `at` it is read behind offset 19.")
        *behind, _ = events(plane.get(f"{url}?at=0:20&limit=10").content)
        assert [one[0] for one in behind] == [f"0:{n}" for n in range(20, 30)]
    wait_until(lambda: plane.get("/v1/health").json()["reasons"] == [])
