"""Each version that is listed is answered by a running broker, in another's codec.

What goes out is written by kio, generated from Kafka's own definitions, or by
kafka-python where kio does not have it; what comes back is read by it, to its last
byte. The requests ask for what is there and mean no harm: no answer may be missing.
"""

import struct
from importlib import import_module
from typing import Any

import pytest
from kafka.protocol.api_message import ApiMessage
from kio.schema.request_header.v1.header import RequestHeader as Header1
from kio.schema.request_header.v2.header import RequestHeader as Header2
from kio.serial import entity_reader, entity_writer

from broker.dispatch.registry import Registry
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import request_encoder
from broker.protocol.errors import ErrorCode
from broker.protocol.schema import Field, Struct
from tests.broker.protocol.values import (
    Buffer,
    is_known_to_kio,
    kafka_python_classes,
    kio_class,
    message_of,
)
from tests.support.peer import Peer, batch_of
from tests.support.process import BrokerPart

SERVED = Registry.discover().by_key
PAIRS = [
    (served.key, version)
    for served in SERVED.values()
    for version in range(served.first_version, served.last_version + 1)
]
CLASSES = kafka_python_classes()
TOPIC = "each"
OF_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""kafka-python has none of them, and kio reads no time of -1, which they say."""
CORRELATION_ID = 4_711
"""What a field says; all others say nothing: 0, the empty text, one element."""
SAID: dict[str, Any] = {
    "name": TOPIC, "topic": TOPIC, "topic_name": TOPIC, "topic_names": TOPIC,
    "group_id": "each-group", "group": "each-group", "groups_names": "each-group",
    "transactional_id": None, "v3_and_below_transactional_id": "nobody",
    "acks": -1, "timeout_ms": 30_000, "records": batch_of(b"v"),
    "client_software_name": "tests", "client_software_version": "1",
    "replica_id": -1, "isolation_level": 0, "max_wait_ms": 0, "session_epoch": -1,
    "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1,
    "last_fetched_epoch": -1, "producer_id": -1, "producer_epoch": -1,
    "session_timeout_ms": 30_000, "member_id": "", "validate_only": True,
    "resource_type": 2, "resource_name": TOPIC, "count": 2, "endpoint_type": 1,
    "broker_id": 9, "response_partition_limit": 10, "num_partitions": 1,
    "replication_factor": 1, "cursor": None, "replica_state": None,
    "transaction_timeout_ms": 60_000, "enable2_pc": False, "max_num_offsets": 1,
    "assignments": [], "configs": [], "timestamp": -1, "log_dir": "/nowhere",
    "path": "/nowhere", "transactional_id_pattern": None,
}  # fmt: skip
OTHERWISE = {
    (ApiKey.CREATE_TOPICS, "name"): "each-new",
    (ApiKey.DELETE_TOPICS, "name"): "each-gone",
    (ApiKey.DELETE_TOPICS, "topic_names"): "each-gone",
    (ApiKey.DELETE_TOPICS, "topic_id"): bytes(16),
    (ApiKey.METADATA, "topic_id"): bytes(16),
    (ApiKey.FETCH, "forgotten_topics_data"): [],
    (ApiKey.JOIN_GROUP, "member_id"): "nobody",
    (ApiKey.END_TXN, "transactional_id"): "nobody",
    (ApiKey.ADD_OFFSETS_TO_TXN, "transactional_id"): "nobody",
    (ApiKey.TXN_OFFSET_COMMIT, "transactional_id"): "nobody",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactional_id"): "nobody",
    (ApiKey.INIT_PRODUCER_ID, "transactional_id"): "each-producer",
    (ApiKey.WRITE_TXN_MARKERS, "producer_id"): 1 << 40,
    (ApiKey.WRITE_TXN_MARKERS, "producer_epoch"): 0,
    (ApiKey.WRITE_TXN_MARKERS, "name"): "each-other",
}


@pytest.fixture(scope="module")
def there(broker: BrokerPart) -> tuple[str, bytes]:
    """A broker that has a topic; the topic's id."""
    with Peer(broker.bootstrap) as peer:
        topic_id = peer.create(TOPIC)
        peer.create("each-other")
        return broker.bootstrap, topic_id


@pytest.mark.parametrize(
    ("key", "version"), PAIRS, ids=lambda one: getattr(one, "name", one)
)
def test_each_version_is_answered_in_another_codec(
    there: tuple[str, bytes], key: ApiKey, version: int
) -> None:
    bootstrap, topic_id = there
    ours = request(key, message_of(key, "request"), version, topic_id)
    body = b"".join(map(bytes, request_encoder(key, version)(ours)))
    with Peer(bootstrap) as peer:
        if key in OF_TOKENS or (key, version) == (ApiKey.DESCRIBE_DELEGATION_TOKEN, 0):
            refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert peer.ask(ours, version).error_code == refused
        elif is_known_to_kio((key, version, "request")):
            ask_by_kio(peer, key, version, body)
        else:
            ask_by_kafka_python(peer, key, version, body)


def request(key: ApiKey, struct_: Struct, version: int, topic_id: bytes) -> Any:
    """A request of ours: what it says, another library is to write."""
    module = import_module(f"broker.protocol.messages.{key.name.lower()}")
    fields = [*struct_.at(version), *struct_.tagged_at(version)]
    said = {one.name: value(key, one, version, topic_id) for one in fields}
    return getattr(module, struct_.name)(**said)


def value(key: ApiKey, field: Field, version: int, topic_id: bytes) -> Any:
    name = field.name
    known: Any = ...
    if (key, name) in OTHERWISE:
        known = OTHERWISE[key, name]
    elif name in SAID and not (isinstance(field.type, Struct) and SAID[name]):
        known = SAID[name]
    if known is None and not (version in field.null_versions or field.optional):
        known = "nobody"
    if known is ...:
        known = element(key, field, version, topic_id)
    return [known] if field.array and not isinstance(known, list) else known


def element(key: ApiKey, field: Field, version: int, topic_id: bytes) -> Any:
    if isinstance(field.type, Struct):
        return request(key, field.type, version, topic_id)
    nothing = {
        "string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": topic_id,
    }  # fmt: skip
    return nothing.get(str(field.type), 0)


def ask_by_kio(peer: Peer, key: ApiKey, version: int, body: bytes) -> None:
    """What kio reads it writes, and what comes back it reads to the end."""
    theirs = kio_class((key, version, "request"))
    asked, size = entity_reader(theirs)(body, 0)
    assert size == len(body)
    is_flexible = theirs.__header_schema__ is Header2
    head = (Header2 if is_flexible else Header1)(
        request_api_key=int(key), request_api_version=version,
        correlation_id=CORRELATION_ID, client_id="kio",
    )  # fmt: skip
    frame = bytearray()
    entity_writer(type(head))(Buffer(frame), head)
    entity_writer(theirs)(Buffer(frame), asked)
    peer.send(struct.pack(">i", len(frame)), bytes(frame))
    answer = bytes(peer.receive())
    reply = kio_class((key, version, "response"))
    header, at = entity_reader(reply.__header_schema__)(answer, 0)
    assert header.correlation_id == CORRELATION_ID
    _, size = entity_reader(reply)(answer, at)
    assert at + size == len(answer)


def ask_by_kafka_python(peer: Peer, key: ApiKey, version: int, body: bytes) -> None:
    """As kio; it writes again what it read, to the same bytes."""
    theirs = CLASSES[message_of(key, "request").name]
    asked = ApiMessage.decode.__func__(theirs, body, version=version)
    asked._header = None
    written = bytes(asked.encode(version=version))
    tags = b"\0" if key.flexible(version) else b""
    head = struct.pack(">hhih", int(key), version, CORRELATION_ID, -1) + tags
    peer.send(struct.pack(">i", len(head + written)), head, written)
    answer = bytes(peer.receive())
    assert answer.startswith(struct.pack(">i", CORRELATION_ID) + tags)
    told = answer[4 + len(tags) :]
    reply = CLASSES[message_of(key, "response").name]
    read = ApiMessage.decode.__func__(reply, told, version=version)
    read._header = None
    assert bytes(read.encode(version=version)) == told
