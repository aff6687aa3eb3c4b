"""Numbers in the format of Prometheus."""

from prometheus_client.parser import text_string_to_metric_families

from broker.settings import Settings
from broker.status.file import encode, path_of
from broker.status.schema import (
    BrokerStatus,
    CompactorStatus,
    OpenTransaction,
    TableState,
)
from tests.support.confluent import produce_all
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


def test_parts_that_are_not_there_are_down(lonely):
    found = scraped(lonely)
    own = {name for name in found if name.startswith("lakelog_admin_process_")}
    assert len(own) == 4
    assert {name: found[name] for name in found.keys() - own} == {
        "lakelog_broker_up": ("gauge", 0.0),
        "lakelog_compactor_up": ("gauge", 0.0),
    }


def say(plane, status):
    (plane.data_dir / "run").mkdir(exist_ok=True)
    path_of(plane.data_dir, type(status)).write_bytes(encode(status))


def test_what_only_grows_is_a_counter_and_all_is_explained(lonely):
    say(lonely, CompactorStatus(stuck=2, counters={"rows_total": 3}))
    say(lonely, BrokerStatus(problems=("x",), counters={"new_total": 1}))
    found = scraped(lonely)
    assert found["lakelog_compactor_rows_total"] == ("counter", 3.0)
    assert found["lakelog_compactor_stuck"] == ("gauge", 2.0)
    assert found["lakelog_broker_wal_bytes"] == ("gauge", 0.0)
    assert found["lakelog_broker_problems"] == ("gauge", 1.0)
    assert found["lakelog_broker_new_total"] == ("counter", 1.0)
    text = lonely.get("/metrics").text
    sentence = "# HELP lakelog_compactor_rows_total Rows that were committed to tables."
    assert sentence in text.splitlines()
    helps = [line.split(" ", 3) for line in text.splitlines() if "# HELP" in line]
    assert len({name for _, _, name, _ in helps}) == len(helps)


def test_a_table_that_is_stuck_is_named(lonely):
    state = TableState("orders", stuck=True, pending_bytes=7, lag_ms=8)
    say(lonely, CompactorStatus(tables=(state,)))
    text = lonely.get("/metrics").text
    assert 'lakelog_compactor_table_stuck{topic="orders"} 1.0' in text
    assert 'lakelog_compactor_table_readable{topic="orders"} 1.0' in text
    assert 'lakelog_compactor_table_lag_ms{topic="orders"} 8.0' in text


def test_a_transaction_that_holds_a_table_back_is_named(lonely):
    known = OpenTransaction("orders", 1, 5, 70, "billing", False, 2_000, 7)
    hanging = OpenTransaction("orders", 2, 0, 71, None, True, 3_500, 1)
    status = BrokerStatus(
        partitions_held=2, transaction_oldest_ms=9, transactions=(known, hanging)
    )
    say(lonely, status)
    lines = lonely.get("/metrics").text.splitlines()
    assert "lakelog_broker_partitions_held 2.0" in lines
    assert "lakelog_broker_transaction_oldest_ms 9.0" in lines
    name, where = "lakelog_broker_transaction", 'partition="1",producer_id="70"'
    labels = f'{{{where},topic="orders",transactional_id="billing"}}'
    assert f"{name}_since_seconds{labels} 2.0" in lines
    assert f"{name}_held_offsets{labels} 7.0" in lines
    assert f"{name}_hangs{labels} 0.0" in lines
    where = 'partition="2",producer_id="71",topic="orders",transactional_id=""'
    assert f"{name}_hangs{{{where}}} 1.0" in lines


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


def test_series_of_topics_are_shown_unless_they_are_switched_off(lonely):
    say(lonely, CompactorStatus(freshness_ms={"orders": 1_500}))
    line = 'lakelog_compactor_table_freshness_seconds{topic="orders"} 1.5'
    assert line in lonely.get("/metrics").text.splitlines()
    assert line not in lonely.get("/metrics?per_topic=false").text
    settings = Settings(data_dir=lonely.data_dir, metrics={"per_topic": False})
    lonely.app.state.settings = settings
    assert line not in lonely.get("/metrics").text
    assert line in lonely.get("/metrics?per_topic=true").text


def test_tables_are_not_named_where_series_of_topics_are_switched_off(lonely):
    waiting = tuple(TableState(f"t{n}", pending_bytes=7, lag_ms=8) for n in range(300))
    unreadable = tuple(TableState(f"u{n}", readable=False) for n in range(300))
    say(lonely, CompactorStatus(tables=waiting, stuck=2))
    say(lonely, BrokerStatus(tables=unreadable))
    assert 'topic="t299"' in lonely.get("/metrics").text
    text = lonely.get("/metrics?per_topic=false").text
    assert "lakelog_compactor_stuck 2.0" in text.splitlines()
    assert 'topic="' not in text
