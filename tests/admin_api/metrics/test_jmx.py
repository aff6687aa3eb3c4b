"""The names of Kafka's own metrics: all that dashboards ask for, and what they say."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from admin_api.metrics.exporter import Figures, Traffic
from admin_api.metrics.jmx import jmx
from broker.status.schema import BrokerStatus

OF_TOPICS = "kafka_server_brokertopicmetrics"
EACH = {
    f"{OF_TOPICS}_messagesin_total",
    f"{OF_TOPICS}_bytesin_total",
    f"{OF_TOPICS}_bytesout_total",
}
NAMES = {
    f"{OF_TOPICS}_totalproducerequests_total",
    f"{OF_TOPICS}_totalfetchrequests_total",
    f"{OF_TOPICS}_failedproducerequests_total",
    f"{OF_TOPICS}_failedfetchrequests_total",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_socket_server_metrics_connection_count",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
} | EACH
"""Without labels, as the JMX exporter's rules for Kafka make them."""
BY_REQUEST = {
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems_count",
}
STATUS = BrokerStatus(
    partitions=3,
    connections_open=4,
    loop_idle_percent=75,
    counters={
        "records_in_total": 5,
        "bytes_in_total": 50,
        "bytes_out_total": 40,
        "produce_errors_total": 7,
        "fetch_errors_total": 8,
    },
    requests={"fetch": 6, "list_offsets": 2},
)
FIGURES = Figures(
    traffic={"orders": Traffic(5, 50, 40)}, sizes={("orders", 1): 90, ("idle", 0): 0}
)


class Shown(Collector):
    def __init__(self, figures):
        self.figures = figures

    def collect(self):
        return jmx(STATUS, self.figures)


def shown(figures=None):
    """(name, labels' values) -> value, as whoever scrapes reads it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Shown(figures))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_whole_list_is_there():
    found = shown(FIGURES)
    assert {name for name, *labels in found if not labels} == NAMES
    assert {name for name, *labels in found if labels} == {
        *BY_REQUEST,
        *EACH,
        "kafka_log_log_size",
    }
    without = shown()
    assert {name for name, *labels in without if not labels} == NAMES
    assert {name for name, *labels in without if labels} == BY_REQUEST


def test_what_a_broker_counted_has_kafkas_names():
    found = shown(FIGURES)
    assert found[f"{OF_TOPICS}_messagesin_total",] == 5
    assert found[f"{OF_TOPICS}_messagesin_total", "orders"] == 5
    assert found[f"{OF_TOPICS}_bytesin_total", "orders"] == 50
    assert found[f"{OF_TOPICS}_bytesout_total", "orders"] == 40
    assert found[f"{OF_TOPICS}_totalfetchrequests_total",] == 6
    assert found[f"{OF_TOPICS}_totalproducerequests_total",] == 0
    assert found[f"{OF_TOPICS}_failedproducerequests_total",] == 7
    assert found[f"{OF_TOPICS}_failedfetchrequests_total",] == 8
    assert found["kafka_server_replicamanager_partitioncount",] == 3
    assert found["kafka_server_socket_server_metrics_connection_count",] == 4
    assert found["kafka_log_log_size", "1", "orders"] == 90
    assert found["kafka_log_log_size", "0", "idle"] == 0


def test_the_loop_is_both_network_thread_and_request_handler():
    found = shown()
    of_network = "kafka_network_socketserver_networkprocessoravgidle_percent"
    of_handlers = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
    assert found[of_network,] == found[of_handlers,] == 0.75


def test_requests_have_kafkas_names_and_a_consumers_fetch_counts_as_one():
    found = shown()
    requests = "kafka_network_requestmetrics_requests_total"
    times = "kafka_network_requestmetrics_totaltimems_count"
    for name, count in {"Fetch": 6, "FetchConsumer": 6, "ListOffsets": 2}.items():
        assert found[requests, name] == found[times, name] == count
