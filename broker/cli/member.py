"""What a member of a group commits: what was written of what it is assigned.

The problem: librdkafka holds a commit back while no broker answers, for as long as the
group would wait for the member (45 s), and a close waits for that commit; all of it in
C, where ctrl-C is not seen. The idea: a thread of its own waits for it, and we for the
thread, some seconds. What is not committed then comes to the group again, and that is
said. The price: such a consumer cannot be closed; the end of the process takes it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final

import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from broker.cli.failures import UserError

COMMIT_S: Final = 5.0
CONFIG: Final = {
    "enable.auto.commit": False,
    # a day, the longest there is: the reader of what is written may be `less`
    "max.poll.interval.ms": 86_400_000,
}
NOT_A_MEMBER: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
"""What a group says to who would commit for partitions that it gives to others."""
GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
"""The topic was deleted, or made again with fewer partitions: of what is not there
nothing is to be committed, and what else was named is."""
NO_ANSWER: Final = frozenset(
    {
        KafkaError._WAIT_COORD,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""There is no broker, or none that looks after the group just now."""


class Uncommitted(UserError):
    """No broker took the commit; it may be on its way still, so that who closes the
    consumer waits for it."""


def join(
    consumer: Consumer, topic: str, partitions: set[int], written: dict[int, int]
) -> None:
    """Subscribe; the end is then the end of what this member was assigned, and it goes
    on where the group is: behind what was written by whoever had it before."""

    def assigned(_consumer: Consumer, found: list[TopicPartition]) -> None:
        written.clear()
        partitions.clear()
        partitions.update(part.partition for part in found)

    def revoked(_consumer: Consumer, _found: list[TopicPartition]) -> None:
        try:
            _commit(consumer, topic, written, _here)
        except Uncommitted as error:
            typer.echo(f"lakelog: {error}", err=True)
        written.clear()

    def lost(_consumer: Consumer, _found: list[TopicPartition]) -> None:
        if written:  # it may be another member's by now
            why = "this member was taken for dead"
            typer.echo(f"lakelog: {_again(why, topic, written)}", err=True)
        written.clear()

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)


def commit(consumer: Consumer, topic: str, written: Mapping[int, int]) -> None:
    """What was written, at the end.

    Raises:
        Uncommitted: no broker took it within some seconds.
    """
    _commit(consumer, topic, written, _for_some_seconds)


def _commit(
    consumer: Consumer,
    topic: str,
    written: Mapping[int, int],
    run: Callable[[Callable[[], Any]], None],
) -> None:
    """Of what this member is still assigned; librdkafka's own positions are behind all
    that it handed out, written or not. Where nothing was written it is not asked what
    is assigned: while it closes it refuses to say so, or never answers, and its binding
    lets no other thread of ours run meanwhile."""
    if not written:
        return
    assigned = {part.partition for part in consumer.assignment()}
    offsets = {n: offset for n, offset in written.items() if n in assigned}
    if not offsets:
        return
    parts = [
        TopicPartition(topic, number, offset) for number, offset in offsets.items()
    ]
    try:
        run(lambda: consumer.commit(offsets=parts, asynchronous=False))
    except (TimeoutError, KafkaException) as error:
        code = error.args[0].code() if error.args else KafkaError._TIMED_OUT
        if code in NO_ANSWER:
            why = "no broker takes the group's commit"
            raise Uncommitted(_again(why, topic, offsets)) from None
        if code not in NOT_A_MEMBER | GONE:
            raise


@contextmanager
def closed_after(consumer: Consumer, written: dict[int, int]) -> Iterator[None]:
    """Closes the consumer, which commits no more then: who wanted what was written may
    not have it, if this ends by an error."""
    waits_for_commit = False
    try:
        yield
    except Uncommitted:
        waits_for_commit = True
        raise
    finally:
        written.clear()
        if not waits_for_commit:
            with suppress(TimeoutError):
                _for_some_seconds(consumer.close)


def _again(why: str, topic: str, partitions: Iterable[int]) -> str:
    names = ", ".join(map(str, sorted(partitions)))
    return (
        f"{why}: what was written of {topic} (partitions {names}) is not committed, "
        "and comes to the group again"
    )


def _here(call: Callable[[], Any]) -> None:
    """While librdkafka calls back: it keeps every other thread waiting then."""
    call()


def _for_some_seconds(call: Callable[[], Any]) -> None:
    """Return when it has, or raise what it raised; TimeoutError if it goes on."""
    ended = Future[None]()

    def run() -> None:
        try:
            ended.set_result(call())
        except (KafkaException, RuntimeError) as error:
            ended.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    ended.result(COMMIT_S)
