"""Levels of a running broker's loggers."""

import os

from broker.status.file import encode, path_of
from broker.status.schema import CompactorStatus

URL = "/v1/loggers/lakelog.network"
FAR_S = 1 << 32
"""A time that does not come soon."""


def put(plane, path, level):
    return plane.ask("PUT", path, json={"level": level})


def test_a_level_is_changed_while_the_broker_runs(plane):
    assert plane.get(URL).json() == {"name": "lakelog.network", "level": "info"}
    assert put(plane, URL, "debug").json()["level"] == "debug"
    listed = {
        one["name"]: one["level"] for one in plane.get("/v1/loggers").json()["data"]
    }
    assert listed["lakelog.network"] == "debug"
    assert listed["lakelog.groups"] == "info"
    assert put(plane, "/v1/loggers/lakelog", "info").status_code == 200
    assert plane.get(URL).json()["level"] == "info"


def test_what_is_no_logger_or_level_is_refused(plane):
    assert put(plane, "/v1/loggers/other", "debug").status_code == 404
    assert plane.get("/v1/loggers/other").status_code == 404
    assert put(plane, URL, "loud").status_code == 400
    assert plane.get(URL).json()["level"] == "info"


def test_a_compactor_that_says_it_runs_has_to_be_asked(plane):
    path = path_of(plane.data_dir, CompactorStatus)
    path.write_bytes(encode(CompactorStatus()))
    os.utime(path, (FAR_S, FAR_S))  # it does not grow old
    try:
        answer = put(plane, "/v1/loggers/lakelog", "info")
        listed = plane.get("/v1/loggers")
    finally:
        path.unlink()
    for one in (answer, listed):
        assert (one.status_code, one.json()["error_code"]) == (503, 50303)
        assert "compactor's internal endpoint" in one.json()["message"]
    assert put(plane, "/v1/loggers/lakelog", "info").status_code == 200
