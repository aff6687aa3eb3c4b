"""Histograms of the parts as Prometheus has them: cumulative, in seconds."""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import HistogramMetricFamily, Metric

from broker.status.histogram import HistogramState, size_bounds, time_bounds_s
from broker.status.schema import BrokerStatus, CompactorStatus

PREFIX = "lakelog_broker"


def histograms(status: BrokerStatus) -> Iterator[Metric]:
    """Requests by API, syncs, groups and the loop; those that counted something."""
    requests = HistogramMetricFamily(
        f"{PREFIX}_request_duration_seconds",
        "Time from the first step of a request to its answer; a Fetch waits in it.",
        labels=["api"],
    )
    for api, state in sorted(status.request_times.items()):
        _add(requests, [api], state, time_bounds_s(len(state.buckets)), 1e9)
    yield requests
    for name, sentence, state in (
        ("sync_duration_seconds", "Time of a sync of the log.", status.sync_times),
        ("loop_lag_seconds", "How late the event loop was.", status.loop_lag),
        (
            "cold_read_duration_seconds",
            "Time of a read of a table for a consumer.",
            status.cold_read_times,
        ),
    ):
        yield _of_times(f"{PREFIX}_{name}", sentence, state)
    yield _of_sizes(
        f"{PREFIX}_group_commit_batches",
        "Batches that were acknowledged together.",
        status.group_batches,
    )


def compaction(status: CompactorStatus) -> Iterator[Metric]:
    """Rounds, and how fresh the tables were after each of their commits."""
    prefix = "lakelog_compactor"
    times = (
        ("round_duration_seconds", "Time of a compaction round.", status.round_times),
        (
            "freshness_seconds",
            "How long the oldest record of a commit had waited for its table.",
            status.freshness,
        ),
    )
    for name, sentence, state in times:
        yield _of_times(f"{prefix}_{name}", sentence, state)
    sizes = (
        ("round_rows", "Rows that a round committed.", status.round_rows),
        ("round_log_bytes", "Bytes of log of a round.", status.round_bytes),
    )
    for name, sentence, state in sizes:
        yield _of_sizes(f"{prefix}_{name}", sentence, state)


def _of_times(name: str, sentence: str, state: HistogramState) -> Metric:
    family = HistogramMetricFamily(name, sentence, labels=[])
    _add(family, [], state, time_bounds_s(len(state.buckets)), 1e9)
    return family


def _of_sizes(name: str, sentence: str, state: HistogramState) -> Metric:
    family = HistogramMetricFamily(name, sentence, labels=[])
    _add(family, [], state, size_bounds(len(state.buckets)), 1)
    return family


def _add(
    family: HistogramMetricFamily,
    labels: Sequence[str],
    state: HistogramState,
    bounds: Sequence[float],
    units: float,
) -> None:
    if not state.buckets:
        return
    buckets: list[Any] = []
    sum_ = 0
    for bound, count in zip((*bounds, float("inf")), state.buckets, strict=True):
        sum_ += count
        buckets.append(["+Inf" if bound == float("inf") else repr(bound), sum_])
    family.add_metric(labels, buckets, state.total / units)
