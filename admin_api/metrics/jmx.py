"""The broker's figures under the names that the JMX exporter gives Kafka's."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.status.schema import BrokerStatus

_TOPICS = "kafka_server_brokertopicmetrics"
_COUNTERS = {
    f"{_TOPICS}_messagesin": "records_in_total",
    f"{_TOPICS}_bytesin": "bytes_in_total",
    f"{_TOPICS}_bytesout": "bytes_out_total",
}
_REQUESTS = {
    f"{_TOPICS}_totalproducerequests": "produce",
    f"{_TOPICS}_totalfetchrequests": "fetch",
}


def jmx(status: BrokerStatus) -> Iterator[Metric]:
    """What dashboards for Kafka ask of one broker, without labels."""
    for name, own in _COUNTERS.items():
        value = float(status.counters.get(own, 0))
        yield CounterMetricFamily(name, f"The same as lakelog_broker_{own}.", value)
    for name, api in _REQUESTS.items():
        value = float(status.requests.get(api, 0))
        yield CounterMetricFamily(name, f"Requests of {api} that were answered.", value)
    partitions = float(status.partitions)
    replicas = "kafka_server_replicamanager"
    controller = "kafka_controller_kafkacontroller"
    gauges = {
        f"{replicas}_partitioncount": ("Partitions that exist.", partitions),
        f"{replicas}_leadercount": ("Partitions that the broker leads.", partitions),
        f"{replicas}_underreplicatedpartitions": (
            "Partitions that miss copies; there is one copy of each.",
            0.0,
        ),
        f"{controller}_activecontrollercount": (
            "1 if it is the controller, as it always is.",
            1.0,
        ),
        f"{controller}_offlinepartitionscount": ("Partitions without a leader.", 0.0),
        "kafka_server_socket_server_metrics_connection_count": (
            "Connections that are open.",
            float(status.connections_open),
        ),
    }
    for name, (sentence, value) in gauges.items():
        yield GaugeMetricFamily(name, sentence, value)
