"""The names of Kafka's own metrics."""

from admin_api.metrics.jmx import jmx
from broker.status.schema import BrokerStatus


def test_what_a_broker_counted_has_kafkas_names():
    status = BrokerStatus(
        partitions=3,
        connections_open=4,
        counters={"records_in_total": 5},
        requests={"fetch": 6},
    )
    found = {s.name: s.value for family in jmx(status) for s in family.samples}
    topics = "kafka_server_brokertopicmetrics"
    assert found[f"{topics}_messagesin_total"] == 5
    assert found[f"{topics}_totalfetchrequests_total"] == 6
    assert found[f"{topics}_totalproducerequests_total"] == 0
    assert found["kafka_server_replicamanager_partitioncount"] == 3
    assert found["kafka_server_socket_server_metrics_connection_count"] == 4
