"""The broker's histograms as Prometheus has them: cumulative, in seconds."""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import HistogramMetricFamily, Metric

from broker.status.histogram import HistogramState, size_bounds, time_bounds_s
from broker.status.schema import BrokerStatus

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
    ):
        family = HistogramMetricFamily(f"{PREFIX}_{name}", sentence, labels=[])
        _add(family, [], state, time_bounds_s(len(state.buckets)), 1e9)
        yield family
    groups = HistogramMetricFamily(
        f"{PREFIX}_group_commit_batches",
        "Batches that were acknowledged together.",
        labels=[],
    )
    state = status.group_batches
    _add(groups, [], state, size_bounds(len(state.buckets)), 1)
    yield groups


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
