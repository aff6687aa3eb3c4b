"""The one cluster, in the Confluent v3 shape."""


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
