"""ApiVersions says what is served, and checks who asks."""

from types import SimpleNamespace

import pytest

from broker.apis.api_versions import KEPT_MAX, api_versions
from broker.dispatch.context import Context
from broker.dispatch.registry import Listed, Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from broker.runtime.configs.features import Features
from broker.transactions.limits import TransactionLimits

FEATURES = Features(SimpleNamespace(), 1)  # type: ignore[arg-type]


def context(version: int, *listed: Listed, features: Features | None = None) -> Context:
    return Context(
        version=version,
        client_id=None,
        key=ApiKey.API_VERSIONS,
        peer_host="h",
        broker=SimpleNamespace(features=features or FEATURES),  # type: ignore[arg-type]
        listed=listed,
    )


def test_it_lists_what_the_registry_found() -> None:
    listed = (Listed(0, 0, 13), Listed(18, 0, 4))
    answer = api_versions(ApiVersionsRequest(), context(0, *listed))
    assert answer.error_code == ErrorCode.NONE
    assert answer.api_keys == [ApiVersion(0, 0, 13), ApiVersion(18, 0, 4)]


def test_a_connection_remembers_its_software() -> None:
    asked = context(3)
    api_versions(ApiVersionsRequest("apache-kafka-java", "4.1.0"), asked)
    assert asked.software.name == "apache-kafka-java"
    assert asked.software.version == "4.1.0"


def test_of_a_long_name_only_the_beginning_is_kept() -> None:
    asked = context(3)
    answer = api_versions(ApiVersionsRequest("a" * 1_000, "1" * 1_000), asked)
    assert answer.error_code == ErrorCode.NONE
    assert asked.software.name == "a" * KEPT_MAX
    assert asked.software.version == "1" * KEPT_MAX


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a b", "1"), ("a", "-1"), ("a\n", "1"), ("a", "")]
)
def test_software_that_is_no_name_is_refused(name: str, version: str) -> None:
    answer = api_versions(ApiVersionsRequest(name, version), context(3))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.api_keys == []


def test_before_version_three_nobody_says_a_name() -> None:
    assert api_versions(ApiVersionsRequest(), context(2)).error_code == ErrorCode.NONE


def test_clients_of_every_age_may_produce() -> None:
    registry = Registry.discover()
    assert registry.listed()[0] == Listed(ApiKey.PRODUCE, 0, 13)
    assert registry.find(ApiKey.PRODUCE, 0) is not None


# What released clients look for before they use a feature, or send without a look: the
# versions of each must be listed, or the feature is silently off (rdkafka_feature.c,
# KafkaJS and sarama up to 1.45, segmentio's Conn, rskafka).
NEEDS: dict[str, dict[str, tuple[int, ...]]] = {
    "librdkafka, message format 2": {"PRODUCE": (3,), "FETCH": (4,)},
    "librdkafka, compression at all": {"PRODUCE": (0,)},
    "librdkafka, lz4": {"FIND_COORDINATOR": (0,)},
    "librdkafka, zstd": {"PRODUCE": (7,), "FETCH": (10,)},
    "librdkafka, offsets by time": {"LIST_OFFSETS": (1,)},
    "librdkafka, groups": {
        "FIND_COORDINATOR": (0,),
        "OFFSET_COMMIT": (1, 2),
        "OFFSET_FETCH": (1,),
        "JOIN_GROUP": (0,),
        "SYNC_GROUP": (0,),
        "HEARTBEAT": (0,),
        "LEAVE_GROUP": (0,),
    },
    "librdkafka, idempotence": {"INIT_PRODUCER_ID": (0,)},
    "librdkafka, truncation": {"OFFSET_FOR_LEADER_EPOCH": (2,)},
    "librdkafka, config": {"DESCRIBE_CONFIGS": (1,), "CREATE_TOPICS": (4,)},
    "KafkaJS": {
        "PRODUCE": (7,), "FETCH": (11,), "LIST_OFFSETS": (3,), "METADATA": (6,),
        "OFFSET_COMMIT": (5,), "OFFSET_FETCH": (4,), "JOIN_GROUP": (5,),
        "LEAVE_GROUP": (3,), "CREATE_TOPICS": (3,), "INIT_PRODUCER_ID": (1,),
        "API_VERSIONS": (2,),
    },
    "sarama set to 2.1": {
        "PRODUCE": (7,), "FETCH": (8, 10), "METADATA": (5, 7), "JOIN_GROUP": (2,),
        "OFFSET_COMMIT": (2, 4), "OFFSET_FETCH": (1, 4), "LIST_OFFSETS": (1,),
    },
    "kafka-go's Conn": {
        "PRODUCE": (3, 7), "FETCH": (5, 10), "METADATA": (1, 6),
        "JOIN_GROUP": (1, 2), "OFFSET_COMMIT": (2,), "OFFSET_FETCH": (1,),
    },
    "rskafka": {"FETCH": (4,), "PRODUCE": (3, 7), "METADATA": (0, 4)},
    "kafka-python 2.0": {"METADATA": (0, 1)},
    "static members": {"JOIN_GROUP": (5,), "SYNC_GROUP": (3,), "HEARTBEAT": (3,)},
    "Java, newest timestamp": {"LIST_OFFSETS": (7,)},
    "Java, epoch of a producer": {"INIT_PRODUCER_ID": (3,)},
    "Java, exactly once v2": {"TXN_OFFSET_COMMIT": (3,), "OFFSET_FETCH": (7,)},
    "librdkafka and aiokafka, transactions": {
        "ADD_PARTITIONS_TO_TXN": (0,), "ADD_OFFSETS_TO_TXN": (0,), "END_TXN": (0,),
        "TXN_OFFSET_COMMIT": (0, 3),
    },
    "Connect": {
        "CREATE_TOPICS": (2,), "DESCRIBE_CONFIGS": (1,), "JOIN_GROUP": (2,),
    },
    "Streams": {
        "CREATE_TOPICS": (2,), "DELETE_RECORDS": (0,), "LIST_OFFSETS": (1,),
    },
    "kafka-topics": {
        "DELETE_TOPICS": (1,), "CREATE_PARTITIONS": (0,),
        "DESCRIBE_TOPIC_PARTITIONS": (0,), "LIST_PARTITION_REASSIGNMENTS": (0,),
    },
    "kafka-configs": {"INCREMENTAL_ALTER_CONFIGS": (0,), "LIST_CONFIG_RESOURCES": (0,)},
    "kafka-consumer-groups": {
        "LIST_GROUPS": (4, 5), "DESCRIBE_GROUPS": (5,), "DELETE_GROUPS": (2,),
        "OFFSET_DELETE": (0,),
    },
    "kafka-log-dirs": {"DESCRIBE_LOG_DIRS": (1,)},
    "kafka-transactions": {
        "DESCRIBE_PRODUCERS": (0,), "DESCRIBE_TRANSACTIONS": (0,),
        "LIST_TRANSACTIONS": (0,), "WRITE_TXN_MARKERS": (1,),
    },
    "kafka-reassign-partitions": {
        "ALTER_PARTITION_REASSIGNMENTS": (0,), "ALTER_REPLICA_LOG_DIRS": (1,),
    },
    "kafka-leader-election": {"ELECT_LEADERS": (2,)},
    "kafka-cluster": {"DESCRIBE_CLUSTER": (0,), "UNREGISTER_BROKER": (0,)},
    "kafka-features": {"UPDATE_FEATURES": (0,)},
    "kafka-metadata-quorum": {"DESCRIBE_QUORUM": (0,)},
}  # fmt: skip


@pytest.mark.parametrize("client", NEEDS)
def test_what_clients_look_for_is_listed(client: str) -> None:
    listed = {entry.key: entry for entry in Registry.discover().listed()}
    for name, versions in NEEDS[client].items():
        entry = listed[ApiKey[name]]
        for version in versions:
            assert entry.min_version <= version <= entry.max_version, name


def test_what_is_not_served_is_not_listed() -> None:
    """Telemetry above all: whoever sees it listed starts to send it (KIP-714)."""
    listed = {entry.key for entry in Registry.discover().listed()}
    between_brokers = {4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73}
    assert not listed & ({71, 72} | between_brokers)


def test_transactions_of_the_new_kind_are_a_feature() -> None:
    """Clients turn to them by the feature, not by versions."""
    finalized = [
        FinalizedFeatureKey("metadata.version", 30, 30),
        FinalizedFeatureKey("transaction.version", 2, 2),
    ]
    for version in range(5):
        answer = api_versions(ApiVersionsRequest("a", "1"), context(version))
        assert answer.finalized_features == (finalized if version >= 3 else [])
        assert answer.finalized_features_epoch == (0 if version >= 3 else -1)
    assert TransactionLimits().version == 2, "as the coordinator goes by"


def test_of_kafkas_features_those_are_told_that_are_here_at_kafkas_levels() -> None:
    """What Apache Kafka 4.3.1 supports by itself; the rest is in no version here."""
    kafkas = {
        "eligible.leader.replicas.version": (0, 1), "group.version": (0, 1),
        "kraft.version": (0, 1), "metadata.version": (7, 30), "share.version": (0, 1),
        "streams.version": (0, 1), "transaction.version": (0, 2),
    }  # fmt: skip
    answer = api_versions(ApiVersionsRequest("a", "1"), context(4))
    told = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    here = {"metadata.version", "transaction.version"}
    assert told == {name: kafkas[name] for name in here}
    assert {one.name for one in answer.finalized_features} == here


def test_a_feature_whose_lowest_level_is_0_is_supported_since_version_4() -> None:
    """Java clients before 3.9 cannot read it (KAFKA-17011)."""
    metadata = SupportedFeatureKey("metadata.version", 7, 30)
    supported = SupportedFeatureKey("transaction.version", 0, 2)
    for version in range(5):
        answer = api_versions(ApiVersionsRequest("a", "1"), context(version))
        features = [metadata] * (version >= 3) + [supported] * (version >= 4)
        assert answer.supported_features == features
