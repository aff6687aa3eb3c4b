"""The broker's figures under the names that the JMX exporter gives Kafka's.

What Kafka counts for each topic has, as there, a sample of all topics without a label
and one of each topic with it; what Kafka calls the idle share of its network threads
and of its request handlers is that of the one loop that is both here.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.metrics.exporter import Figures
from broker.status.schema import BrokerStatus

_TOPICS: Final = "kafka_server_brokertopicmetrics"
_REPLICAS: Final = "kafka_server_replicamanager"
_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_REQUESTS: Final = "kafka_network_requestmetrics"
_OF_TOPICS: Final = {
    "messagesin": ("records_in_total", attrgetter("records_in")),
    "bytesin": ("bytes_in_total", attrgetter("bytes_in")),
    "bytesout": ("bytes_out_total", attrgetter("bytes_out")),
}
_COUNTERS: Final = {
    "failedproducerequests": "produce_errors_total",
    "failedfetchrequests": "fetch_errors_total",
}
_OF_API: Final = {"totalproducerequests": "produce", "totalfetchrequests": "fetch"}


def jmx(status: BrokerStatus, figures: Figures | None = None) -> Iterator[Metric]:
    """What dashboards for Kafka ask of one broker; of topics only with ``figures``."""
    yield from _counters(status, figures)
    yield from _requests(status.requests)
    for name, (sentence, value) in _gauges(status).items():
        yield GaugeMetricFamily(name, sentence, value)
    if figures is not None:
        yield _sizes(figures)


def _counters(status: BrokerStatus, figures: Figures | None) -> Iterator[Metric]:
    for name, (own, of_topic) in _OF_TOPICS.items():
        sentence = f"The same as lakelog_broker_{own}, of all topics and of each."
        family = Metric(f"{_TOPICS}_{name}", sentence, "counter")
        sample = f"{_TOPICS}_{name}_total"
        family.add_sample(sample, {}, float(status.counters.get(own, 0)))
        for topic, traffic in (figures.traffic if figures else {}).items():
            family.add_sample(sample, {"topic": topic}, float(of_topic(traffic)))
        yield family
    for name, own in _COUNTERS.items():
        value = float(status.counters.get(own, 0))
        sentence = f"The same as lakelog_broker_{own}."
        yield CounterMetricFamily(f"{_TOPICS}_{name}", sentence, value)
    for name, api in _OF_API.items():
        value = float(status.requests.get(api, 0))
        sentence = f"Requests of {api} that were answered."
        yield CounterMetricFamily(f"{_TOPICS}_{name}", sentence, value)


def _requests(answered: Mapping[str, int]) -> Iterator[Metric]:
    """By API under Kafka's name for it; a consumer's Fetch is there twice, as there."""
    requests = CounterMetricFamily(
        f"{_REQUESTS}_requests", "Requests that were answered.", labels=["request"]
    )
    times = Metric(
        f"{_REQUESTS}_totaltimems_count", "How many requests were timed.", "unknown"
    )
    for api, count in answered.items():
        kafkas = "".join(word.capitalize() for word in api.split("_"))
        for name in (kafkas, "FetchConsumer") if kafkas == "Fetch" else (kafkas,):
            requests.add_metric([name], float(count))
            times.add_sample(times.name, {"request": name}, float(count))
    yield from (requests, times)


def _gauges(status: BrokerStatus) -> dict[str, tuple[str, float]]:
    partitions, idle = float(status.partitions), status.loop_idle_percent / 100
    handlers = "kafka_server_kafkarequesthandlerpool"
    return {
        f"{_REPLICAS}_partitioncount": ("Partitions that exist.", partitions),
        f"{_REPLICAS}_leadercount": ("Partitions that the broker leads.", partitions),
        f"{_REPLICAS}_underreplicatedpartitions": (
            "Partitions that miss copies; there is one copy of each.",
            0.0,
        ),
        f"{_CONTROLLER}_activecontrollercount": (
            "1 if it is the controller, as it always is.",
            1.0,
        ),
        f"{_CONTROLLER}_offlinepartitionscount": ("Partitions without a leader.", 0.0),
        "kafka_server_socket_server_metrics_connection_count": (
            "Connections that are open.",
            float(status.connections_open),
        ),
        "kafka_network_socketserver_networkprocessoravgidle_percent": (
            "Idle share of the event loop, 0 to 1.",
            idle,
        ),
        f"{handlers}_requesthandleravgidle_percent": (
            "Idle share of the event loop, 0 to 1; it handles requests as well.",
            idle,
        ),
    }


def _sizes(figures: Figures) -> Metric:
    family = GaugeMetricFamily(
        "kafka_log_log_size",
        "Bytes of the partition, in the log and in its table.",
        labels=["topic", "partition"],
    )
    for (topic, number), size in figures.sizes.items():
        family.add_metric([topic, str(number)], float(size))
    return family
