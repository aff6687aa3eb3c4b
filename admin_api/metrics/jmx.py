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
        yield CounterMetricFamily(name, f"As lakelog_broker_{own}.", value)
    for name, api in _REQUESTS.items():
        value = float(status.requests.get(api, 0))
        yield CounterMetricFamily(name, f"Requests of {api}.", value)
    partitions = float(status.partitions)
    replicas = "kafka_server_replicamanager"
    controller = "kafka_controller_kafkacontroller"
    gauges = {
        f"{replicas}_partitioncount": ("Partitions.", partitions),
        f"{replicas}_leadercount": ("Partitions that it leads.", partitions),
        f"{replicas}_underreplicatedpartitions": ("There is one copy of each.", 0.0),
        f"{controller}_activecontrollercount": ("It is the controller.", 1.0),
        f"{controller}_offlinepartitionscount": ("A partition has its broker.", 0.0),
        "kafka_server_socket_server_metrics_connection_count": (
            "Open connections.",
            float(status.connections_open),
        ),
    }
    for name, (sentence, value) in gauges.items():
        yield GaugeMetricFamily(name, sentence, value)
