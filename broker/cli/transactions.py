"""``lakelog transactions``: look at transactions, and end one that does not end itself.

librdkafka has no such calls, so these speak the protocol themselves (``wire.py``).
"""

from typing import Annotated, Any

import typer

from broker.cli import output
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import (
    BOOTSTRAP_DEFAULT,
    INT32_MAX,
    INT64_MAX,
    Bootstrap,
    Json,
    named,
)
from broker.cli.wire import Wire, failure_of
from broker.protocol.errors import ErrorCode
from broker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

app = typer.Typer(help="Look at transactions, and end them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The transactional id.")]
States = Annotated[
    list[str] | None,
    typer.Option("--state", help="Ongoing, Empty, CompleteCommit, ...; repeatable."),
]
Longer = Annotated[
    int,
    typer.Option(
        "--longer-than-ms",
        min=-1,
        max=INT64_MAX,
        help="Only those that began longer ago.",
    ),
]
Pattern = Annotated[
    str | None, typer.Option("--pattern", help="Ids that it matches, as RE2 does.")
]
Id = Annotated[
    str | None, typer.Argument(help="The transactional id of one that is known.")
]
Topic = Annotated[
    str | None, typer.Option("--topic", callback=named, help="Where one hangs.")
]
Partition = Annotated[int, typer.Option("--partition", min=0, max=INT32_MAX)]
Start = Annotated[
    int | None, typer.Option("--start-offset", help="The offset at which it begins.")
]


@app.command("list")
def list_(
    state: States = None,
    longer_than_ms: Longer = -1,
    pattern: Pattern = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """All transactional ids with their producers and states."""
    request = ListTransactionsRequest(
        state_filters=state or [],
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    with Wire.open(bootstrap) as wire:
        found = wire.ask(request)
    _check(found.error_code, pattern or "the transactions")
    if found.unknown_state_filters:
        raise BadUsage(f"there is no state {found.unknown_state_filters[0]!r}")
    listed = sorted(found.transaction_states, key=lambda one: one.transactional_id)
    output.rows(
        [
            {
                "transactional_id": one.transactional_id,
                "state": one.transaction_state,
                "producer_id": one.producer_id,
            }
            for one in listed
        ],
        json,
    )


@app.command()
def describe(
    transactional_id: Name,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """State, producer, and the partitions that are part of an open transaction."""
    with Wire.open(bootstrap) as wire:
        found = wire.ask(DescribeTransactionsRequest([transactional_id]))
    [one] = found.transaction_states
    _check(one.error_code, transactional_id)
    output.one(
        {
            "transactional_id": one.transactional_id,
            "state": one.transaction_state,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "timeout_ms": one.transaction_timeout_ms,
            "started_ms": None
            if one.transaction_start_time_ms < 0
            else one.transaction_start_time_ms,
            "partitions": [
                f"{topic.topic}-{index}"
                for topic in one.topics
                for index in topic.partitions
            ],
        },
        json,
    )


@app.command()
def abort(
    transactional_id: Id = None,
    topic: Topic = None,
    partition: Partition = 0,
    start_offset: Start = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Abort the open transaction of an id, and fence its producer.

    Or, with --topic, --partition and --start-offset, one that hangs in a partition and
    that no id knows.
    """
    if (transactional_id is None) is (topic is None):
        raise BadUsage("abort takes a transactional id, or --topic and --start-offset")
    with Wire.open(bootstrap) as wire:
        if transactional_id is not None:
            aborted = _abort_known(wire, transactional_id)
        elif start_offset is None or topic is None:
            raise BadUsage("--topic needs --start-offset: where the transaction begins")
        else:
            aborted = _abort_hanging(wire, topic, partition, start_offset)
    output.one(aborted, json)


def _abort_known(wire: Wire, transactional_id: str) -> dict[str, Any]:
    """Take the producer's place: all before are fenced, what is open is aborted."""
    found = wire.ask(DescribeTransactionsRequest([transactional_id]))
    [before] = found.transaction_states
    _check(before.error_code, transactional_id)
    request = InitProducerIdRequest(transactional_id, before.transaction_timeout_ms)
    taken = wire.ask_until(
        request, lambda answer: answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS
    )
    _check(taken.error_code, transactional_id)
    return {
        "transactional_id": transactional_id,
        "state": before.transaction_state,
        "fenced_epoch": before.producer_epoch,
    }


def _abort_hanging(
    wire: Wire, topic: str, partition: int, start_offset: int
) -> dict[str, Any]:
    """Write the marker that its coordinator does not write."""
    producer = _beginning_at(wire, topic, partition, start_offset)
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        False,
        [WritableTxnMarkerTopic(topic, [partition])],
        max(producer.coordinator_epoch, 0),
    )
    [answer] = wire.ask(WriteTxnMarkersRequest([marker])).markers
    _check(answer.topics[0].partitions[0].error_code, f"{topic}-{partition}")
    return {
        "topic": topic,
        "partition": partition,
        "start_offset": start_offset,
        "producer_id": producer.producer_id,
    }


def _beginning_at(
    wire: Wire, topic: str, partition: int, start_offset: int
) -> ProducerState:
    asked = DescribeProducersRequest([TopicRequest(topic, [partition])])
    found = wire.ask(asked).topics[0].partitions[0]
    _check(found.error_code, f"{topic}-{partition}")
    for producer in found.active_producers:
        if producer.current_txn_start_offset == start_offset:
            opened: ProducerState = producer
            return opened
    raise UserError(f"no transaction begins in {topic}-{partition} at {start_offset}")


def _check(code: int, what: str) -> None:
    if code:
        raise UserError(failure_of(code, what))
