"""kafka-python, which has the oldest versions, reads and writes the same bytes."""

from typing import Any

import pytest
from hypothesis import given
from kafka.protocol.api_message import ApiMessage

from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import request_encoder, response_encoder
from broker.protocol.schema import Field, Struct
from tests.broker.protocol.values import (
    EVERY,
    KNOWN_TO_KIO,
    carried,
    few,
    kafka_python_classes,
    message_of,
    messages,
    name_of,
)

ENCODERS = {"request": request_encoder, "response": response_encoder}


CLASSES = kafka_python_classes()


def known(case: tuple[Any, int, str]) -> bool:
    key, version, side = case
    theirs = CLASSES.get(message_of(key, side).name)
    return theirs is not None and version <= theirs.max_version


KNOWN = [case for case in EVERY if known(case)]


@pytest.mark.parametrize("case", KNOWN, ids=name_of)
def test_kafka_python_reads_what_we_write_and_writes_the_same(case):
    key, version, side = case
    theirs = CLASSES[message_of(key, side).name]
    encode = ENCODERS[side](key, version)

    @few
    @given(messages(key, version, side))
    def agrees(message):
        data = b"".join(encode(message))
        # The plain reader: that of ApiVersions takes every error for version 0.
        parsed = ApiMessage.decode.__func__(theirs, data, version=version)
        same(message_of(key, side), version, message, parsed)
        parsed._header = None  # its decoder leaves this unset, its encoder reads it
        assert bytes(parsed.encode(version=version)) == data

    agrees()


def same(struct: Struct, version: int, ours: Any, theirs: Any) -> None:
    """Every field has the same name and the same value on both sides."""
    for field in carried(struct, version):
        left, right = getattr(ours, field.name), attribute(theirs, field)
        if field.array and left is not None:
            assert len(left) == len(right)
            for a, b in zip(left, right, strict=True):
                same_value(field, version, a, b)
        else:
            same_value(field, version, left, right)


def attribute(theirs: Any, field: Field) -> Any:
    if field.type == "int32" and field.name.endswith("authorized_operations"):
        name = field.name if hasattr(theirs, field.name) else "authorized_operations"
        value = getattr(theirs, name)
        return value if isinstance(value, int) else bits(value)
    return getattr(theirs, field.name)


def bits(operations: set[int] | None) -> int:
    """The number that kafka-python reads as a set of bits, or as None if unset."""
    unsigned = sum(1 << bit for bit in ({31} if operations is None else operations))
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def same_value(field: Field, version: int, ours: Any, theirs: Any) -> None:
    if isinstance(field.type, Struct) and ours is not None:
        same(field.type, version, ours, theirs)
    elif field.type == "uuid":
        assert (bytes(16) if theirs is None else theirs.bytes) == ours
    else:
        assert theirs == ours


OF_TOKENS = {
    *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN),
    *(ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN),
}
UNSEEN = {(key, 0, side) for key in OF_TOKENS for side in ENCODERS}
"""Kafka 4 dropped their version 0, and kafka-python has none of them."""


@pytest.mark.parametrize("case", sorted(UNSEEN), ids=name_of)
def test_what_neither_library_knows_is_as_the_version_that_one_reads(case):
    """In the schemas of Kafka 3.9 version 1 has the fields of version 0."""
    key, version, side = case
    assert (key, version + 1, side) in KNOWN_TO_KIO
    before, after = (ENCODERS[side](key, number) for number in (version, version + 1))

    @few
    @given(messages(key, version, side))
    def agrees(message):
        assert b"".join(before(message)) == b"".join(after(message))

    agrees()


def test_no_other_message_is_unseen_by_both_libraries():
    assert set(EVERY) - set(KNOWN) - set(KNOWN_TO_KIO) == UNSEEN
    # kio has no versions that Kafka 4 dropped; kafka-python has no new group protocols.
    assert {case[0].name for case in set(EVERY) - set(KNOWN)} == {
        *("CONSUMER_GROUP_HEARTBEAT", "CONSUMER_GROUP_DESCRIBE"),
        *("SHARE_GROUP_HEARTBEAT", "SHARE_GROUP_DESCRIBE"),
        *("SHARE_FETCH", "SHARE_ACKNOWLEDGE"),
        *("STREAMS_GROUP_HEARTBEAT", "STREAMS_GROUP_DESCRIBE"),
        *("DESCRIBE_SHARE_GROUP_OFFSETS", "ALTER_SHARE_GROUP_OFFSETS"),
        "DELETE_SHARE_GROUP_OFFSETS",
        *("GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY", "UNREGISTER_BROKER"),
        *(key.name for key in OF_TOKENS),
    }
