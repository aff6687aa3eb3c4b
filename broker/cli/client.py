"""The Kafka client behind the commands: librdkafka, as any user of Kafka has it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from broker.cli.failures import BadUsage, UserError

Place = tuple[str, int]
Offsets = dict[Place, int]

READ_COMMITTED = IsolationLevel.READ_COMMITTED
TIMEOUT_S = 15.0
PORT_MAX = 65_535


def connection(bootstrap: str) -> dict[str, Any]:
    """Client configuration that reports a missing broker soon and quietly."""
    return {
        "bootstrap.servers": bootstrap,
        "socket.connection.setup.timeout.ms": 5000,
        "log_level": 2,
        "error_cb": lambda _error: None,
    }


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raises the KeyboardInterrupt that came while librdkafka called back: its binding
    loses that one exception, and fails without any."""
    try:
        yield
    except SystemError:
        raise KeyboardInterrupt from None


def admin(bootstrap: str) -> AdminClient:
    """An admin client that is known to reach a broker.

    Raises:
        BadUsage: ``bootstrap`` is no list of addresses.
        UserError: nobody answers there.
    """
    addresses = [address_of(one) for one in bootstrap.split(",")]
    if not any(_listens(*address) for address in addresses):
        raise UserError(f"no broker answers at {bootstrap}")
    client = AdminClient(connection(bootstrap))
    try:
        client.list_topics(timeout=5.0)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            raise UserError(f"no broker answers at {bootstrap}") from None
        raise
    return client


def address_of(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``. Raises BadUsage."""
    host, _, port = address.strip().rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port) <= PORT_MAX):
        raise BadUsage(f"--bootstrap takes HOST:PORT, not {address!r}")
    return host.strip("[]"), int(port)


def _listens(host: str, port: int) -> bool:
    """Whether somebody takes a connection: librdkafka would ask for seconds."""
    try:
        socket.create_connection((host, port), timeout=5.0).close()
    except OSError:
        return False
    return True


def await_all(futures: dict[Any, Any]) -> list[Any]:
    """Wait for each future of an admin call; the first failure is raised.

    The caller keeps the client until then: one that is closed gives up its calls.
    """
    return [future.result(timeout=TIMEOUT_S) for future in futures.values()]


def offsets_of(
    client: AdminClient,
    places: list[Place],
    spec: OffsetSpec,
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Offsets:
    """The offset of each partition that the spec names to readers of a level; -1 where
    there is none."""
    asked = {TopicPartition(*one): spec for one in places}
    found = client.list_offsets(asked, isolation_level=level)
    return {
        (part.topic, part.partition): future.result(timeout=TIMEOUT_S).offset
        for part, future in found.items()
    }
