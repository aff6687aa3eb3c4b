"""Tables over HTTP: with a broker and without one."""

import os
import time
from pathlib import Path

import pytest

from admin_api.lake import Lake
from broker.status.file import encode, path_of
from broker.status.schema import CompactorStatus, TableState
from lakehouse.log.delta_log import entry_path
from tests.support.confluent import produce_all
from tests.support.laked import id_of, make_table, make_topic
from tests.support.patience import Patience
from tests.support.tables import Writer


def table_of(plane, name):
    """A table beside a topic that the broker made."""
    topic = Lake(plane.data_dir).topic(name)
    return Writer(str(plane.data_dir / "tables"), name, topic.id.hex())


def shown(plane, name):
    """A table, once the broker answered in time: a busy one may not."""
    patience = Patience()
    while (found := plane.get(f"/v1/tables/{name}").json())["broker_problem"]:
        assert patience.lasts(), found
    return found


def test_a_table_is_shown_with_what_the_broker_and_the_log_say(plane):
    plane.create("shown", partitions=2)
    records = [(None, b"v", None, 0)] * 5
    produce_all(plane.bootstrap, "shown", records)
    writer = table_of(plane, "shown")
    writer.add(0, 0, 3)
    found = shown(plane, "shown")
    assert found["metadata"]["self"] == "http://plane/v1/tables/shown"
    assert (found["location"], found["version"]) == (writer.path, 1)
    assert (found["rows"], found["files"], found["small_files"]) == (3, 1, 1)
    assert found["protocol"] == {
        "min_reader_version": 1,
        "min_writer_version": 2,
        "reader_features": [],
    }
    assert found["properties"]["lakelog.topic"] == "shown"
    [column] = [one for one in found["columns"] if one["name"] == "topic"]
    assert column == {
        "name": "topic", "type": "string", "nullable": True,
        "comment": "Name of the topic",
    }  # fmt: skip
    first, second = found["partitions"]
    assert (first["log_start"], first["table_end"]) == (0, 3)
    assert (first["last_stable_offset"], first["high_watermark"]) == (5, 5)
    assert (first["lag_records"], second["lag_records"]) == (2, 0)
    assert (found["lag_records"], found["broker_problem"]) == (2, None)


def test_a_topic_without_records_has_no_table_yet(plane):
    plane.create("empty")
    found = shown(plane, "empty")
    assert (found["version"], found["problem"]) == (None, None)
    assert (found["columns"], found["lag_records"]) == ([], 0)
    assert found["partitions"][0]["high_watermark"] == 0


def test_a_table_of_no_topic_is_a_404(plane):
    answer = plane.get("/v1/tables/nobody")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)


def test_without_a_broker_the_log_is_shown_and_the_rest_is_null(lonely):
    make_table(lonely.data_dir, "orders").add(0, 0, 3)
    state = TableState("orders", stuck=True, why="no commit", since_ms=7, lag_ms=2000)
    status = CompactorStatus(tables=(state,))
    path = path_of(lonely.data_dir, CompactorStatus)
    path.parent.mkdir()
    path.write_bytes(encode(status))
    os.utime(path, (time.time() + 3600,) * 2)  # however long this takes, it is fresh
    answer = lonely.get("/v1/tables/orders")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["rows"], found["lag_records"]) == (3, None)
    assert found["broker_problem"]
    part = found["partitions"][0]
    assert (part["table_end"], part["log_start"]) == (3, 0)
    assert (part["last_stable_offset"], part["high_watermark"]) == (None, None)
    said = found["compaction"]
    assert (said["stuck"], said["error"]) == (True, "no commit")
    assert (said["error_since_ms"], found["lag_seconds"]) == (7, 2.0)


def test_without_a_catalog_there_is_a_503_with_the_reason(lonely):
    for path in ("/v1/tables", "/v1/tables/orders"):
        answer = lonely.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
        assert "there is no catalog" in answer.json()["message"]


def test_a_damaged_table_is_shown_with_its_problem(lonely):
    writer = make_table(lonely.data_dir, "orders")
    writer.add(0, 0, 3)
    writer.add(0, 3, 6)
    Path(entry_path(writer.path, 1)).unlink()
    found = lonely.get("/v1/tables/orders").json()
    assert "is missing" in found["problem"]
    assert (found["version"], found["partitions"][0]["table_end"]) == (None, None)


def test_tables_come_in_pages_and_only_those_of_a_page_are_opened(lonely, monkeypatch):
    for number in range(5):
        make_topic(lonely.data_dir, f"t{number}", topic_id=id_of(number))
    read, of = [], lonely.app.state.facts.of
    monkeypatch.setattr(
        lonely.app.state.facts, "of", lambda t: (read.append(t.name), of(t))[1]
    )
    url, pages = "/v1/tables?page_size=2", []
    while url:
        found = lonely.get(url).json()
        pages.append([one["topic_name"] for one in found["data"]])
        assert read == pages[-1]
        read.clear()
        url = found["metadata"]["next"]
    assert pages == [["t0", "t1"], ["t2", "t3"], ["t4"]]


@pytest.mark.parametrize("size", ["0", "201", "x", "-1"])
def test_pages_have_bounds(lonely, size):
    assert lonely.get(f"/v1/tables?page_size={size}").status_code == 400
