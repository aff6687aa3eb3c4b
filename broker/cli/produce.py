"""``lakelog produce``: one record a line, from standard input."""

import sys
from functools import partial
from typing import Annotated, Any, Final

import typer
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from broker.cli import output
from broker.cli.client import admin, await_all, connection, interrupts_kept
from broker.cli.failures import UserError
from broker.cli.options import (
    BOOTSTRAP_DEFAULT,
    INT32_MAX,
    Bootstrap,
    Json,
    named,
    pairs,
)

BATCH_BYTES_MAX: Final = 1_000_000
"""As librdkafka has it."""
LINE_BYTES_MAX: Final = 100_000_000
"""A broker takes a request of 100 MiB, and closes the connection at a larger one."""
CONFIG: Final = {
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": LINE_BYTES_MAX,  # the topic has its own
}


class Deliveries:
    """Counts the lines that were acknowledged, and remembers the first refused one."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.refused: tuple[int, str] | None = None

    def __call__(self, line: int, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.refused is None or line < self.refused[0]:
            self.refused = line, error.str()

    def check(self) -> None:
        """Raises UserError if one was refused; of all that were queued it is known."""
        if self.refused is None:
            return
        line, why = self.refused
        before, after = line - 1, self.acknowledged - line + 1
        said = f"; the {before} before it are stored" if before else ""
        said += f"; {after} after it are stored" if after else ""
        raise UserError(f"line {line}: {why}{said}")


def split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    """Key and value of a line; without a separator in it the key is null."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)


def produce(
    topic: Annotated[str, typer.Argument(help="Where the records go.", callback=named)],
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="Splits key from value.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", help="k=v; repeatable.")
    ] = None,
    partition: Annotated[
        int,
        typer.Option(
            "--partition", min=-1, max=INT32_MAX, help="-1: chosen by the key."
        ),
    ] = -1,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Produce each line of standard input as one record; wait for all of them.

    At a line that is refused it ends, and says how many are stored.
    """
    limit = _batch_bytes_max(admin(bootstrap), topic)
    headers = [(key, value.encode()) for key, value in pairs(header, "--header")]
    deliveries = Deliveries()
    producer = Producer(connection(bootstrap) | CONFIG | {"batch.size": limit})
    separator = key_separator.encode() if key_separator else None
    with interrupts_kept():
        # of a line that is longer no more is read than what shows that
        read = partial(sys.stdin.buffer.readline, LINE_BYTES_MAX + 2)
        for number, line in enumerate(iter(read, b""), 1):
            if len(line) > LINE_BYTES_MAX + 1:  # a part of one: of no use, stripped
                deliveries(number, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
                break
            key, value = split(line.rstrip(b"\r\n"), separator)
            record = {"value": value, "key": key, "partition": partition}
            _queue(producer, topic, record | {"headers": headers}, number, deliveries)
            if deliveries.refused:
                break
        producer.flush()
    deliveries.check()
    output.one({"produced": deliveries.acknowledged}, json)


def _batch_bytes_max(client: AdminClient, topic: str) -> int:
    """Lines that the topic takes each for itself it shall not refuse together."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        [found] = await_all(client.describe_configs([asked]))
    except KafkaException:  # not there yet, or not to be asked
        return BATCH_BYTES_MAX
    return min(BATCH_BYTES_MAX, int(found["max.message.bytes"].value) or 1)


def _queue(
    producer: Producer,
    topic: str,
    record: dict[str, Any],
    line: int,
    deliveries: Deliveries,
) -> None:
    delivered = partial(deliveries, line)
    while True:
        try:
            producer.produce(topic, **record, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:  # what is queued already goes
            return delivered(error.args[0], None)
        else:
            producer.poll(0)
            return None
