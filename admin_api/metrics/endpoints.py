"""Prometheus metrics, read off the status files of the parts.

A number ``a.b`` of the broker's status becomes ``lakelog_broker_a_b``; what only grows
is a counter and ends in ``_total``. The sentences come from `broker.status.schema`. A
table that records wait for, or that cannot be read, has gauges labelled by its topic,
unless series of topics are switched off; each of the oldest transactions that hold a
table back always has some, and whose it is.
The hot path counts in plain ints; nobody waits for a scrape.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from admin_api.dependencies import (
    ClockDep,
    ExporterDep,
    LagRecorderDep,
    SettingsDep,
    StatusDep,
)
from admin_api.lag_history.recorder import LagRecorder
from admin_api.metrics.expiry import expiry
from admin_api.metrics.exporter import Figures, families
from admin_api.metrics.histograms import compaction, histograms
from admin_api.metrics.jmx import jmx
from admin_api.metrics.process import children, process
from admin_api.status import StatusFiles
from broker.status.schema import (
    COUNTERS_HELP,
    BrokerStatus,
    CompactorStatus,
    OpenTransaction,
    TableState,
)

router = APIRouter(tags=["metrics"])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def gauges(status: Any, prefix: str) -> Iterator[Metric]:
    """A gauge for each field of ``status`` that has a sentence, and below it."""
    for one in fields(status):
        value, name = getattr(status, one.name), f"{prefix}_{one.name}"
        if is_dataclass(value):
            yield from gauges(value, name)
        elif "help" in one.metadata:
            yield GaugeMetricFamily(name, one.metadata["help"], float(value))


def counters(found: Mapping[str, int], prefix: str) -> Iterator[Metric]:
    """A counter for each; their names end in ``_total``."""
    for name, value in found.items():
        sentence = COUNTERS_HELP.get(name, "Counted by a newer version of the part.")
        stem = name.removesuffix("_total")
        yield CounterMetricFamily(f"{prefix}_{stem}", sentence, float(value))


def requests(found: Mapping[str, int]) -> Iterator[Metric]:
    """A counter for each API."""
    for api, value in found.items():
        sentence = f"Requests of {api} that were answered."
        yield CounterMetricFamily(
            f"lakelog_broker_requests_{api}", sentence, float(value)
        )


def tables(found: tuple[TableState, ...], prefix: str) -> Iterator[Metric]:
    """How each table stands, labelled by its topic."""
    families = {
        "readable": "1 if the rows of the table can be read.",
        "stuck": "1 if records wait and nothing can be committed.",
        "pending_bytes": "Bytes of log that wait for the table.",
        "lag_ms": "Age of the oldest record that waits for the table.",
    }
    for name, sentence in families.items():
        family = GaugeMetricFamily(f"{prefix}_table_{name}", sentence, labels=["topic"])
        for state in found:
            family.add_metric([state.topic], float(getattr(state, name)))
        if found:
            yield family


def freshness(status: CompactorStatus) -> Metric:
    """How fresh each table was after its last commit, labelled by its topic."""
    family = GaugeMetricFamily(
        "lakelog_compactor_table_freshness_seconds",
        "How long the oldest record of the table's last commit had waited for it.",
        labels=["topic"],
    )
    for topic, waited_ms in status.freshness_ms.items():
        family.add_metric([topic], waited_ms / 1000)
    return family


def transactions(found: tuple[OpenTransaction, ...]) -> Iterator[Metric]:
    """The transactions that hold tables back, labelled by where and whose they are."""
    families = {
        "since_seconds": "When the transaction began, seconds since the epoch.",
        "held_offsets": "Offsets that wait for the end of the transaction.",
        "hangs": "1 if no coordinator will end the transaction.",
    }
    labels = ["topic", "partition", "producer_id", "transactional_id"]
    for name, sentence in families.items():
        family = GaugeMetricFamily(
            f"lakelog_broker_transaction_{name}", sentence, labels=labels
        )
        for one in found:
            where = [one.topic, str(one.partition), str(one.producer_id)]
            values = {
                "since_seconds": one.since_ms / 1000,
                "held_offsets": float(one.held_offsets),
                "hangs": float(one.hangs),
            }
            family.add_metric([*where, one.transactional_id or ""], values[name])
        if found:
            yield family


def lag_history(recorder: LagRecorder) -> Iterator[Metric]:
    """What the history of lags has no room for, once there is one."""
    if not len(recorder.ring):
        return
    for what in ("groups", "partitions"):
        yield GaugeMetricFamily(
            f"lakelog_lag_history_left_out_{what}",
            f"Those {what} that the history of lags has no room for.",
            float(getattr(recorder.left_out, what)),
        )


class PartsCollector(Collector):
    """The status files as metric families, read at each scrape."""

    def __init__(
        self, status: StatusFiles, figures: Figures | None, *, per_topic: bool
    ) -> None:
        self._status, self._per_topic = status, per_topic
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Everything that the parts say now."""
        yield from process("lakelog_admin", os.getpid())
        broker, compactor = self._status.broker(), self._status.compactor()
        yield from _part("lakelog_broker", broker, per_topic=self._per_topic)
        if broker is not None:
            yield from requests(broker.requests)
            yield from histograms(broker)
            yield from jmx(broker, self._figures)
            yield from transactions(broker.transactions)
        yield from _part("lakelog_compactor", compactor, per_topic=self._per_topic)
        if compactor is not None:
            yield from compaction(compactor)
            if compactor.pid:
                yield from children("lakelog_compactor", compactor.pid)
            if self._per_topic:
                yield freshness(compactor)


def _part(
    prefix: str, status: BrokerStatus | CompactorStatus | None, *, per_topic: bool
) -> Iterator[Metric]:
    up = 0.0 if status is None else 1.0
    yield GaugeMetricFamily(f"{prefix}_up", "1 if its status is fresh.", up)
    if status is None:
        return
    problems = float(len(status.problems))
    yield GaugeMetricFamily(f"{prefix}_problems", "Problems that it reports.", problems)
    yield from gauges(status, prefix)
    yield from counters(status.counters, prefix)
    if per_topic:
        yield from tables(status.tables, prefix)
    if status.pid:
        yield from process(prefix, status.pid)


class Collected(Collector):
    """Families that were made before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """They."""
        yield from self._families


def text(
    status: StatusFiles,
    figures: Figures | None = None,
    age_s: float = 0.0,
    more: Sequence[Metric] = (),
    *,
    per_topic: bool = True,
) -> bytes:
    """All metrics in the text format of Prometheus; of topics and groups only with
    what the broker said of them ``age_s`` ago; ``more`` is the plane's own. Blocks for
    a moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected(list(more)))
    registry.register(PartsCollector(status, figures, per_topic=per_topic))
    if figures is not None:
        registry.register(Collected(list(families(figures, age_s))))
    return generate_latest(registry)


@router.get("/metrics", response_class=PlainTextResponse, summary="Get metrics")
async def metrics(
    status: StatusDep,
    exporter: ExporterDep,
    recorder: LagRecorderDep,
    settings: SettingsDep,
    clock: ClockDep,
    per_topic: Annotated[
        bool | None,
        Query(
            description="Whether to have series of topics and groups; as the setting "
            "`metrics.per_topic` says if it is left out.",
            examples=[False],
        ),
    ] = None,
) -> Response:
    """All metrics in the text format of Prometheus.

    Names that begin with `lakelog_` are ours, those with `kafka_` are kafka_exporter's
    and the JMX exporter's. Series of topics and groups are of the first 10,000
    partitions and 500 groups, and missing while the broker does not answer. They are
    asked for every ten seconds, more seldom if that takes more than one.
    """
    wanted = settings.metrics.per_topic if per_topic is None else per_topic
    figures = await exporter.figures() if wanted else None
    age_s = exporter.age_s
    now_ms = clock.now_ms()
    expires = await asyncio.to_thread(lambda: list(expiry(settings, now_ms)))
    kept = [*lag_history(recorder), *expires]
    found = await asyncio.to_thread(
        text, status, figures, age_s, kept, per_topic=wanted
    )
    return Response(found, media_type=CONTENT_TYPE)
