"""``lakelog produce``: one record a line, from standard input."""

import sys
from typing import Annotated, Any

import typer
from confluent_kafka import Producer

from broker.cli import output
from broker.cli.client import admin, connection, interrupts_kept
from broker.cli.failures import UserError
from broker.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json, pairs


class Deliveries:
    """Counts what was acknowledged and remembers the first refusal."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.first_error: str | None = None

    def __call__(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.first_error is None:
            self.first_error = error.str()


def split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    """Key and value of a line; without a separator in it the key is null."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)


def produce(
    topic: Annotated[str, typer.Argument(help="Where the records go.")],
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="Splits key from value.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", help="k=v; repeatable.")
    ] = None,
    partition: Annotated[
        int, typer.Option("--partition", min=-1, help="-1: chosen by the key.")
    ] = -1,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Produce each line of standard input as one record; wait for all of them."""
    admin(bootstrap)
    headers = [(key, value.encode()) for key, value in pairs(header, "--header")]
    producer = Producer(
        connection(bootstrap) | {"enable.idempotence": True, "linger.ms": 5}
    )
    deliveries = Deliveries()
    separator = key_separator.encode() if key_separator else None
    with interrupts_kept():
        for line in sys.stdin.buffer:
            key, value = split(line.rstrip(b"\r\n"), separator)
            _queue(producer, topic, value, key, headers, partition, deliveries)
        producer.flush()
    if deliveries.first_error:
        raise UserError(deliveries.first_error)
    output.one({"produced": deliveries.acknowledged}, json)


def _queue(
    producer: Producer,
    topic: str,
    value: bytes,
    key: bytes | None,
    headers: list[tuple[str, bytes]],
    partition: int,
    deliveries: Deliveries,
) -> None:
    while True:
        try:
            producer.produce(
                topic, value, key, partition, on_delivery=deliveries, headers=headers
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
