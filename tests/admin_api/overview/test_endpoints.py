"""The overview over HTTP."""

from tests.support.patience import Patience


def test_a_broker_without_a_compactor_is_degraded(plane):
    patience = Patience()
    while (found := plane.get("/v1/health").json())["reasons"]:
        assert patience.lasts(found), found  # it writes its status each second
    assert found["status"] == "DEGRADED"
    assert found["broker"]["answers"]
    assert "no compactor is running" in found["warnings"][0]
    assert found["disk"]["data_dir"] == str(plane.data_dir)


def test_without_a_broker_it_is_a_report_all_the_same(lonely):
    answer = lonely.get("/v1/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "DOWN")
    assert "does not answer" in answer.json()["reasons"][0]
