"""Alert rules and the dashboard name metrics that a running system shows."""

import json
import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admin_api.access.tokens import Role, Tokens
from admin_api.metrics.expiry import expiry
from broker.runtime.process.status import Counters as BrokerCounters
from broker.settings import Settings
from broker.status.file import encode, path_of
from broker.status.schema import COUNTERS_HELP, CompactorStatus, TableState
from jobs.figures import Figures
from jobs.status import Counters
from tests.support.confluent import produce_all
from tests.support.patience import wait_until
from tests.support.transactions import commit, transactional, write

INFRA = Path(__file__).parents[3] / "infra"
RULES = (INFRA / "prometheus" / "alerts.yml").read_text()
BOOK = (INFRA / "docs" / "monitor.md").read_text()
DASHBOARD = json.loads((INFRA / "grafana" / "lakelog.json").read_text())
NAME = re.compile(r"\b(?:lakelog|kafka)_[a-z0-9_]+")
LATEST = {
    "lakelog_broker_request_duration_seconds_bucket",
    "lakelog_broker_requests_produce_total",
    "kafka_consumergroup_lag_sum",
    "lakelog_broker_transaction_hangs",
    "lakelog_topic_bytes_in_total",
}
"""What is shown some seconds after it happened."""
URL = "http://{{ $labels.instance }}/guide/monitor"
PEM = Path(__file__).parents[1] / "access" / "localhost.pem"
OF_PROMETHEUS = {"instance"}
"""A label that whoever scrapes adds."""
LABEL = re.compile(r"[{,]\s*([a-z_]+)\s*=|by \(([a-z_, ]+)\)")


@pytest.fixture(scope="module")
def shown(plane, tmp_path_factory):
    """Name of each sample of a busy system -> names of its labels."""
    plane.create("watched")
    produce_all(plane.bootstrap, "watched", [(None, b"v", None, 0)])
    body = {"to": "LATEST", "topics": [{"topic_name": "watched"}], "dry_run": False}
    assert plane.post("/v1/groups/watchers:reset-offsets", body).is_success
    producer = transactional(plane.bootstrap, "watched")
    producer.begin_transaction()
    write(producer, "watched", b"held back")
    found = {}

    def is_all_shown():
        found.clear()
        found.update(scraped(plane))
        return found.keys() >= LATEST

    wait_until(is_all_shown)
    commit(producer)
    return found | expiring(tmp_path_factory.mktemp("expiring"))


def expiring(data_dir):
    """Of a plane with a certificate and a token that is not good for ever."""
    Tokens(data_dir).create(Role.VIEWER, "", 0, 1_000)
    settings = Settings(data_dir=data_dir, admin_tls={"certificate": PEM})
    return {
        sample.name: set(sample.labels)
        for family in expiry(settings, 0)
        for sample in family.samples
    }


def scraped(plane):
    figures = Figures()
    figures.add_round(5, 1, 70)
    figures.add_commit("watched", 7)
    said = figures.said(
        CompactorStatus(
            pid=os.getpid(),
            tables=(TableState("watched", lag_ms=5),),
            counters=Counters().totals(),
        )
    )
    path_of(plane.data_dir, CompactorStatus).write_bytes(encode(said))
    found = {}
    for family in text_string_to_metric_families(plane.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_is_explained_by_a_sentence_of_its_own(shown, plane):
    assert shown
    text = plane.get("/metrics").text
    helps = [line.split(" ", 3)[2:] for line in text.splitlines() if "# HELP" in line]
    assert len(helps) > 80
    for name, sentence in helps:
        assert re.fullmatch(r"[A-Z1].*[A-Za-z0-9)]\.", sentence), (name, sentence)
        words = set(re.findall(r"\w+", sentence.lower()))
        assert len(words) > 2, (name, sentence)
        assert words - set(name.split("_")), (name, sentence)


def test_whatever_a_part_counts_has_its_sentence():
    counted = {*Counters().totals(), *BrokerCounters().totals()}
    assert counted <= COUNTERS_HELP.keys()


def alerts():
    return re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", RULES)


def queries():
    found = [expr for _, expr in alerts()]
    for panel in DASHBOARD["panels"]:
        found += [target["expr"] for target in panel["targets"]]
    return found


def test_every_query_names_a_metric_that_exists_with_labels_that_it_has(shown):
    asked = queries()
    assert len(asked) > 40
    for query in asked:
        names = NAME.findall(query)
        assert names or query.startswith("up{"), query
        assert not [name for name in names if name not in shown], query
        labels = {
            label.strip()
            for one, several in LABEL.findall(query)
            for label in (one or several).split(",")
        }
        for name in names:
            missing = labels - shown[name] - OF_PROMETHEUS
            assert not missing, (query, missing)


def test_every_alert_has_its_page_of_the_runbook():
    names = [name for name, _ in alerts()]
    assert len(names) == len(set(names)) == RULES.count("- alert:")
    for name in names:
        assert f"\n### {name}\n" in BOOK
        assert f'runbook_url: "{URL}#{name.lower()}"' in RULES
    assert BOOK.count("\n### ") == len(names)


def test_each_link_of_an_alert_leads_to_its_place_in_the_guide(plane):
    page = plane.get(URL.partition("}}")[2])
    assert page.status_code == 200
    linked = re.findall(r'runbook_url: "[^#]+#(\w+)"', RULES)
    assert len(linked) == len(alerts())
    assert [name for name in linked if f'id="{name}"' not in page.text] == []


def test_the_runbook_names_metrics_that_exist(shown):
    named = re.findall(r"lakelog_[a-z0-9_]+", BOOK)
    assert len(named) > 3
    assert set(named) <= shown.keys()
    families = re.findall(r"`(\w+_)\*`", BOOK)
    assert len(families) > 3
    for family in families:
        assert any(name.startswith(family) for name in shown), family


def test_panels_have_places_of_their_own():
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


KAFKA_EXPORTER = {
    "kafka_brokers": set(),
    "kafka_broker_info": {"id", "address"},
    "kafka_topic_partitions": {"topic"},
    **{
        f"kafka_topic_partition_{name}": {"topic", "partition"}
        for name in (
            "current_offset",
            "oldest_offset",
            "leader",
            "replicas",
            "in_sync_replica",
            "leader_is_preferred",
            "under_replicated_partition",
        )
    },
    "kafka_consumergroup_current_offset": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_lag": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_current_offset_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_lag_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_members": {"consumergroup"},
}


def test_all_of_kafka_exporters_names_are_there_with_their_labels(shown):
    assert {name: shown.get(name) for name in KAFKA_EXPORTER} == KAFKA_EXPORTER
