"""kio, generated from Kafka's own definitions, reads and writes the very same bytes."""

import datetime
import uuid
from typing import Any

import pytest
from hypothesis import given
from kio.serial import entity_reader, entity_writer

from broker.protocol.codec import request_encoder, response_encoder
from broker.protocol.schema import Field, Struct
from tests.broker.protocol.values import (
    EVERY,
    KNOWN_TO_KIO,
    Buffer,
    carried,
    few,
    kio_class,
    message_of,
    messages,
    name_of,
)

ENCODERS = {"request": request_encoder, "response": response_encoder}


@pytest.mark.parametrize("case", KNOWN_TO_KIO, ids=name_of)
def test_kio_reads_what_we_write_and_writes_the_same(case):
    key, version, side = case
    theirs = kio_class(case)
    read, write = entity_reader(theirs), entity_writer(theirs)
    encode = ENCODERS[side](key, version)

    @few
    @given(messages(key, version, side))
    def agrees(message):
        data = b"".join(encode(message))
        parsed, size = read(data, 0)
        assert size == len(data)
        same(message_of(key, side), version, message, parsed)
        buffer = bytearray()
        write(Buffer(buffer), parsed)
        assert bytes(buffer) == data

    agrees()


def same(struct: Struct, version: int, ours: Any, theirs: Any) -> None:
    """Every field has the same name and the same value on both sides."""
    for field in carried(struct, version):
        name = field.name
        if not hasattr(theirs, name):
            name = name.removesuffix("_ms")
        left, right = getattr(ours, field.name), getattr(theirs, name)
        if field.array and left is not None:
            assert len(left) == len(right)
            for a, b in zip(left, right, strict=True):
                same_value(field, version, a, b)
        else:
            same_value(field, version, left, right)


def same_value(field: Field, version: int, ours: Any, theirs: Any) -> None:
    if isinstance(field.type, Struct) and ours is not None:
        same(field.type, version, ours, theirs)
    elif field.optional:
        # kio says Kafka's default where we say that nothing was said.
        assert theirs is None or theirs == type(theirs)()
    else:
        assert plain(theirs, field) == ours


def plain(value: Any, field: Field) -> Any:
    """kio's value in the types of the wire."""
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(16) if value is None and field.type == "uuid" else value


def test_kio_has_all_but_what_kafka_4_dropped():
    missing: dict[str, list[int]] = {}
    for case in EVERY:
        if case not in KNOWN_TO_KIO and case[2] == "request":
            missing.setdefault(case[0].name, []).append(case[1])
    assert missing == {
        "PRODUCE": [0, 1, 2],
        "FETCH": [0, 1, 2, 3],
        "LIST_OFFSETS": [0],
        "OFFSET_COMMIT": [0, 1],
        "OFFSET_FETCH": [0],
        "CREATE_TOPICS": [0, 1],
        "DELETE_TOPICS": [0],
        "OFFSET_FOR_LEADER_EPOCH": [0, 1],
        "WRITE_TXN_MARKERS": [0],
        "DESCRIBE_ACLS": [0],
        "CREATE_ACLS": [0],
        "DELETE_ACLS": [0],
        "DESCRIBE_CONFIGS": [0],
        "ALTER_REPLICA_LOG_DIRS": [0],
        "DESCRIBE_LOG_DIRS": [0],
        "CREATE_DELEGATION_TOKEN": [0],
        "RENEW_DELEGATION_TOKEN": [0],
        "EXPIRE_DELEGATION_TOKEN": [0],
        "DESCRIBE_DELEGATION_TOKEN": [0],
    }
