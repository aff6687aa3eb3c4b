"""Prometheus metrics, read off the status files of the parts.

A number ``a.b`` of ``broker.json`` becomes ``lakelog_broker_a_b``; those that only
grow (names ending in ``_total``) are counters, the rest gauges. The hot path counts in
plain ints; nobody waits for a scrape.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admin_api.dependencies import StatusDep
from admin_api.status import StatusFiles

router = APIRouter(tags=["metrics"])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PARTS = ("broker", "compactor")


def flatten(found: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Every number below ``found`` with its full name; true and false are 1 and 0."""
    for key, value in found.items():
        name = f"{prefix}_{re.sub('[^a-zA-Z0-9]+', '_', key)}"
        if isinstance(value, Mapping):
            yield from flatten(value, name)
        elif isinstance(value, bool | int | float):
            yield name, float(value)


class PartsCollector(Collector):
    """The status files as metric families, read at each scrape."""

    def __init__(self, status: StatusFiles) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        for part in PARTS:
            found = self._status.read(part)
            up = 0.0 if found is None else 1.0
            yield GaugeMetricFamily(f"lakelog_{part}_up", f"The {part} runs.", up)
            for name, value in flatten(found or {}, f"lakelog_{part}"):
                yield _family(name, value)


def _family(name: str, value: float) -> Metric:
    text = name.replace("_", " ")
    if name.endswith("_total"):
        return CounterMetricFamily(name.removesuffix("_total"), text, value)
    return GaugeMetricFamily(name, text, value)


@router.get("/metrics")
def metrics(status: StatusDep) -> Response:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PartsCollector(status))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE)
