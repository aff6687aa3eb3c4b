"""The one cluster, in the Confluent v3 shape."""

import time

from tests.admin_api.conftest import Plane
from tests.support.patience import IDLE_S
from tests.support.ports import nobody


def test_the_cluster_is_listed_and_got_by_its_id(plane):
    listed = plane.get("/v3/clusters").json()
    assert listed["kind"] == "KafkaClusterList"
    [cluster] = listed["data"]
    own = f"http://plane/v3/clusters/{cluster['cluster_id']}"
    assert cluster["kind"] == "KafkaCluster"
    assert cluster["metadata"]["self"] == own
    assert cluster["topics"] == {"related": f"{own}/topics"}
    assert plane.get(own).json() == cluster


def test_another_cluster_cannot_be_found(plane):
    for path in ("/v3/clusters/other", "/v3/clusters/other/topics"):
        answer = plane.get(path)
        assert answer.status_code == 404
        assert answer.json() == {
            "error_code": 404,
            "message": "Cluster other cannot be found.",
        }


def test_a_broker_that_does_not_answer_is_a_503(lonely):
    answer = lonely.get("/v3/clusters")
    assert answer.status_code == 503
    assert answer.json()["error_code"] == 50302
    bootstrap = lonely.app.state.bootstrap
    assert answer.json()["message"].startswith(f"The broker at {bootstrap} d")


def test_where_connections_are_refused_nobody_waits_for_all_of_the_time(tmp_path):
    with nobody() as address:
        plane = Plane(address, tmp_path, timeout_s=10 * IDLE_S)
        begun_s = time.monotonic()
        answer = plane.get("/v3/clusters/any/topics")
        took_s = time.monotonic() - begun_s
        plane.close()
    assert answer.status_code == 503
    assert answer.json() == {
        "error_code": 50302,
        "message": f"The broker at {address} does not answer: connections are refused",
    }
    assert took_s < 5 * IDLE_S
