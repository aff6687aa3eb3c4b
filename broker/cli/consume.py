"""``lakelog consume``: records to standard output."""

import base64
import json as jsonlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from broker.cli import member, topic_look
from broker.cli.client import (
    READ_COMMITTED,
    TIMEOUT_S,
    Offsets,
    Place,
    admin,
    connection,
    interrupts_kept,
    offsets_of,
)
from broker.cli.failures import BadUsage, UserError
from broker.cli.interrupts import end_at_interrupt, interrupt_deferred
from broker.cli.options import BOOTSTRAP_DEFAULT, INT64_MAX, Bootstrap, Json, named
from broker.cli.silence import CONFIG, LONG_MS, Silence
from broker.cli.topic_look import TopicLook

BATCH = 1_000
SECTION_BYTES = 65_536
"""What a pipe holds."""
PASSING = {KafkaError._MAX_POLL_EXCEEDED, *member.GONE}
"""It joins its group again; it goes on when there is such a topic (`TopicLook`)."""
NAMED = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}


def consume(
    topic: Annotated[str, typer.Argument(help="What to read.", callback=named)],
    start: Annotated[
        str,
        typer.Option("--from", help="beginning | end | OFFSET | ISO 8601 time"),
    ] = "beginning",
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after so many records.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="Join this group, and commit what was read."),
    ] = None,
    exit_at_end: Annotated[
        bool,
        typer.Option(
            "--exit-at-end",
            help="Stop when all has been read; with exit code 1 if the topic is gone, "
            f"or if for {LONG_MS // 1000} s nothing of what has not been read comes or "
            "is on its way, or no broker answers who waits for its group.",
        ),
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Print records as they come: values, or with --json all of each record.

    With --group it goes on where the group is; --from, which is beginning or end then,
    says where a group starts that has committed nothing, in new partitions too. What
    was printed is committed at the end, by ctrl-C too, and where the group gives
    partitions to others.

    Partitions that are added to the topic are read too, from their beginning (but for a
    group that starts at the end), and that it was deleted is said, and one that is made
    again behind that is read from its beginning; once a minute it is looked whether.
    """
    check_start(start, in_group=group is not None)
    if group == "":
        raise BadUsage("--group takes a name, and this one is empty")
    starts, unread = _starts(bootstrap, topic, start)
    silence, written = Silence(bootstrap, topic), dict[int, int]()
    consumer = Consumer(
        connection(bootstrap)
        | member.CONFIG
        | topic_look.CONFIG
        | CONFIG
        | {
            "stats_cb": silence.hear,
            "group.id": group or "lakelog-consume",
            "auto.offset.reset": "latest" if start == "end" else "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
    )
    with member.closed_after(consumer, written):
        if group:
            member.join(consumer, topic, unread, written)
        else:
            consumer.assign([TopicPartition(*one, at) for one, at in starts.items()])
        with suppress(KeyboardInterrupt), interrupts_kept():
            known = [number for _, number in starts]
            look = TopicLook(consumer, topic, known, group is not None, written)
            found = _batches(consumer, unread, exit_at_end, count, silence, look)
            _print(found, count, json, written)
        end_at_interrupt()  # the next one waits for no broker
        if group:
            member.commit(consumer, topic, written)
        if exit_at_end:
            silence.check()


def as_json(message: Any) -> dict[str, Any]:
    """A record as JSON; bytes that are not UTF-8 are given in base64."""
    kind, timestamp = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestampType": max(kind - 1, 0),
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[key, _text(value)] for key, value in message.headers() or []],
    }


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _starts(bootstrap: str, topic: str, start: str) -> tuple[Offsets, set[int]]:
    """Where to begin in each partition, and of which there may be more to read now: not
    of one that begins behind what an open transaction wrote first, of which librdkafka
    says nothing, not even that it is at its end."""
    client = admin(bootstrap)
    known = client.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    if known is None:
        raise UserError(f"there is no topic {topic!r}")
    places = [(topic, number) for number in sorted(known.partitions)]
    if start in NAMED:
        return dict.fromkeys(places, NAMED[start]), set(known.partitions)
    starts = _positions(client, places, start)
    stable = offsets_of(client, places, OffsetSpec.latest(), READ_COMMITTED)
    return starts, {one[1] for one in places if starts[one] <= stable[one]}


def _positions(client: AdminClient, places: list[Place], start: str) -> Offsets:
    """Where an offset or a time is; one beyond a partition's end is its end, behind
    what open transactions wrote too."""
    ends = offsets_of(client, places, OffsetSpec.latest())
    if _is_offset(start):
        return {one: min(int(start), end) for one, end in ends.items()}
    found = offsets_of(client, places, OffsetSpec.for_timestamp(millis(start)))
    return {one: first if first >= 0 else ends[one] for one, first in found.items()}


def _is_offset(text: str) -> bool:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(INT64_MAX))
    return digits and int(text) <= INT64_MAX


def check_start(start: str, in_group: bool) -> None:
    """Raises BadUsage for what ``--from`` cannot be."""
    if in_group and start not in NAMED:
        raise BadUsage(f"--from is beginning or end with --group, not {start!r}")
    if start not in NAMED and not _is_offset(start):
        millis(start)


def millis(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time; one without a zone is local,
    one before is 0.

    Raises:
        BadUsage: it is none.
    """
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadUsage(
            f"--from takes beginning, end, an offset or an ISO 8601 time, not {text!r}"
        ) from None


def _print(
    found: Iterable[list[Any]], count: int | None, json: bool, written: dict[int, int]
) -> None:
    """Many lines at a time: a flush for each would be most of the work. Where ctrl-C
    ends it, whole lines were written, each once, and all of them are in ``written``.

    ``written``: partition -> the offset behind the last record of it that was.
    """
    output, shown = sys.stdout.buffer, 0
    for messages in found:
        for lines, ends in _sections(messages, json):
            with interrupt_deferred():
                output.write(lines)
                output.flush()
                written.update(ends)
        shown += len(messages)
        if shown == count:
            return


def _sections(
    messages: Iterable[Any], json: bool
) -> Iterator[tuple[bytes, dict[int, int]]]:
    """Lines, and the offsets behind them by partition; so few that ctrl-C need not wait
    long for a slow reader of them."""
    lines, ends = bytearray(), dict[int, int]()
    for message in messages:
        line = message.value() or b""
        if json:
            line = jsonlib.dumps(as_json(message)).encode()
        lines += line + b"\n"
        ends[message.partition()] = message.offset() + 1
        if len(lines) >= SECTION_BYTES:
            yield bytes(lines), ends
            lines, ends = bytearray(), {}
    if lines:
        yield bytes(lines), ends


def _batches(
    consumer: Consumer,
    open_partitions: set[int],
    exit_at_end: bool,
    count: int | None,
    silence: Silence,
    look: TopicLook,
) -> Iterator[list[Any]]:
    """What has come, up to ``count`` records in all, until all partitions ended."""
    left = count
    while not exit_at_end or not (
        silence.is_long or _is_read(consumer, open_partitions, look)
    ):
        open_partitions |= look.added()
        if exit_at_end:
            look.check()
        wanted = BATCH if left is None else min(BATCH, left)
        # one is waited for, and what is there comes with it
        first = consumer.consume(1, timeout=1.0)
        rest = consumer.consume(wanted - 1, timeout=0.0) if first and wanted > 1 else []
        found = [one for one in (*first, *rest) if _is_record(one, open_partitions)]
        silence.end(one.partition() for one in (*first, *rest))
        assigned = {part.partition for part in consumer.assignment()}
        if len(first) + len(rest) < wanted:  # no more was there
            silence.look(open_partitions & assigned)
        if not assigned:  # given back between the two: the commit is before the first
            found = []
        if found:
            yield found
        if left is not None:
            left -= len(found)


def _is_read(consumer: Consumer, open_partitions: set[int], look: TopicLook) -> bool:
    """Whether all partitions ended. Those of nothing did if a broker says that there is
    the topic: a group gives none of one that is gone, and waits for whoever is away.

    Raises:
        UserError: it is gone, or no broker says anything for long.
    """
    if consumer.assignment():
        look.note_assigned()
        return not open_partitions
    if not open_partitions:
        return look.is_there()
    look.await_assignment()
    return False


def _is_record(message: Any, open_partitions: set[int]) -> bool:
    """Whether it is one; notes which partitions have been read to their end."""
    error = message.error()
    if error is None:
        open_partitions.add(message.partition())
        return True
    if error.code() == KafkaError._PARTITION_EOF:
        open_partitions.discard(message.partition())
    elif error.code() not in PASSING:
        raise KafkaException(error)
    return False
