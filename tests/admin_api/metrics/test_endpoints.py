"""Numbers in the format of Prometheus."""

import json

from prometheus_client.parser import text_string_to_metric_families

from admin_api.metrics.endpoints import flatten
from tests.clients.test_confluent import produce_all
from tests.support.process import BrokerPart


def scraped(plane) -> dict[str, tuple[str, float]]:
    answer = plane.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name: (family.type, sample.value)
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_numbers_are_named_by_where_they_stand():
    found = {"a": 1, "b": {"c.d": 2.5, "ok": True, "text": "x"}, "list": [1]}
    assert list(flatten(found, "p")) == [("p_a", 1), ("p_b_c_d", 2.5), ("p_b_ok", 1)]


def test_parts_that_are_not_there_are_down(lonely):
    assert scraped(lonely) == {
        "lakelog_broker_up": ("gauge", 0.0),
        "lakelog_compactor_up": ("gauge", 0.0),
    }


def test_what_only_grows_is_a_counter(lonely):
    (lonely.data_dir / "run").mkdir()
    status = {"records_in_total": 3, "wal": {"bytes": 7}}
    (lonely.data_dir / "run" / "compactor.json").write_text(json.dumps(status))
    found = scraped(lonely)
    assert found["lakelog_compactor_records_in_total"] == ("counter", 3.0)
    assert found["lakelog_compactor_wal_bytes"] == ("gauge", 7.0)
    assert found["lakelog_compactor_up"] == ("gauge", 1.0)


def test_a_broker_counts_what_was_produced(tmp_path):
    from tests.admin_api.conftest import Plane

    part = BrokerPart(tmp_path / "data")
    part.start()
    records = [(None, b"%d" % i, None, 0) for i in range(25)]
    produce_all(part.bootstrap, "counted", records)
    part.stop()  # it says all it knows before it goes
    found = scraped(Plane(part.bootstrap, part.data_dir))
    assert found["lakelog_broker_up"] == ("gauge", 1.0)
    assert found["lakelog_broker_records_in_total"] == ("counter", 25.0)
    kind, count = found["lakelog_broker_requests_produce_total"]
    assert kind == "counter"
    assert 1 <= count <= 25
