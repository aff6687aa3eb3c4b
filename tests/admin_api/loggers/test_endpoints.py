"""Levels of a running broker's loggers."""

URL = "/v1/loggers/lakelog.network"


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
