"""Histograms in Prometheus' form: cumulative, and in seconds."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from admin_api.metrics.endpoints import Collected
from admin_api.metrics.histograms import compaction, histograms
from broker.status.histogram import SIZES, TIMES, Histogram
from broker.status.schema import BrokerStatus, CompactorStatus
from jobs.figures import Figures


def shown(status, families=histograms):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected(list(families(status))))
    text = generate_latest(registry).decode()
    return {
        (sample.name, sample.labels.get("api"), sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_buckets_add_up_and_times_are_seconds():
    times, groups = Histogram(TIMES), Histogram(SIZES)
    for ns in (1_000, 100_000, 100_000, 60_000_000_000):
        times.add_time(ns)
    groups.add_size(3)
    found = shown(
        BrokerStatus(
            request_times={"produce": times.state()}, group_batches=groups.state()
        )
    )
    name = "lakelog_broker_request_duration_seconds"
    assert found[f"{name}_bucket", "produce", "6.4e-05"] == 1
    assert found[f"{name}_bucket", "produce", "0.000128"] == 3
    assert found[f"{name}_bucket", "produce", "+Inf"] == 4
    assert found[f"{name}_count", "produce", None] == 4
    assert found[f"{name}_sum", "produce", None] == 60.000201
    groups_name = "lakelog_broker_group_commit_batches_bucket"
    assert found[groups_name, None, "2.0"] == 0
    assert found[groups_name, None, "4.0"] == 1


def test_of_what_was_not_counted_there_is_nothing():
    assert shown(BrokerStatus()) == {}


def test_rounds_and_freshness_are_shown_in_seconds_rows_and_bytes():
    figures = Figures()
    figures.add_round(2_000, 300, 40_000)
    figures.add_commit("orders", 700)
    found = shown(figures.said(CompactorStatus()), compaction)
    prefix = "lakelog_compactor"
    assert found[f"{prefix}_round_duration_seconds_sum", None, None] == 2
    assert found[f"{prefix}_freshness_seconds_sum", None, None] == 0.7
    assert found[f"{prefix}_freshness_seconds_bucket", None, "1.048576"] == 1
    assert found[f"{prefix}_round_rows_bucket", None, "256.0"] == 0
    assert found[f"{prefix}_round_rows_bucket", None, "512.0"] == 1
    assert found[f"{prefix}_round_log_bytes_sum", None, None] == 40_000
