"""Histograms in Prometheus' form: cumulative, and in seconds."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from admin_api.metrics.endpoints import Collected
from admin_api.metrics.histograms import histograms
from broker.status.histogram import SIZES, TIMES, Histogram
from broker.status.schema import BrokerStatus


def shown(status):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected(list(histograms(status))))
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
