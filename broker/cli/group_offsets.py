"""``lakelog group reset-offsets``: let a group go on from somewhere else.

Only a group without members can be reset: the broker refuses it otherwise, as Kafka's
does. Without ``--execute`` nothing is changed, and what would be is shown.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from broker.cli import output
from broker.cli.client import (
    TIMEOUT_S,
    Offsets,
    Place,
    admin,
    await_all,
    offsets_of,
)
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json, named

Group = Annotated[str, typer.Argument(help="The group's id.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        callback=named,
        help="Of these topics; else of all that it has offsets of.",
    ),
]
Earliest = Annotated[bool, typer.Option("--to-earliest", help="To where logs begin.")]
Latest = Annotated[bool, typer.Option("--to-latest", help="To where logs end.")]
Offset = Annotated[int | None, typer.Option("--to-offset", help="To this offset.")]
Time = Annotated[
    str | None,
    typer.Option("--to-datetime", help="To the first record of this time or later."),
]
Shift = Annotated[
    int | None, typer.Option("--shift-by", help="Forward so many, or back (negative).")
]
Execute = Annotated[
    bool, typer.Option("--execute/--dry-run", help="Do it, or show what it would be.")
]


def reset_offsets(
    group: Group,
    topic: Names = None,
    to_earliest: Earliest = False,
    to_latest: Latest = False,
    to_offset: Offset = None,
    to_datetime: Time = None,
    shift_by: Shift = None,
    execute: Execute = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Commit other offsets for a group that has no members; shown first."""
    ways = (to_earliest or None, to_latest or None, to_offset, to_datetime, shift_by)
    if sum(way is not None for way in ways) != 1:
        raise BadUsage(
            "say one of --to-earliest, --to-latest, --to-offset, --to-datetime and "
            "--shift-by"
        )
    if not group:
        raise BadUsage("the group's id is empty: say which group")
    since_ms = None if to_datetime is None else _millis(to_datetime)
    client = admin(bootstrap)
    before = _committed(client, group)
    places = _places(client, topic) if topic else sorted(before)
    if not places:
        raise UserError(f"{group!r} has committed nothing; say which --topic")
    starts = offsets_of(client, places, OffsetSpec.earliest())
    ends = offsets_of(client, places, OffsetSpec.latest())

    def to(where: Callable[[Place], int]) -> Offsets:
        return {one: min(max(where(one), starts[one]), ends[one]) for one in places}

    if since_ms is not None:
        at = offsets_of(client, places, OffsetSpec.for_timestamp(since_ms))
        after = to(lambda one: at[one] if at[one] >= 0 else ends[one])
    elif shift_by is not None:
        after = to(lambda one: before.get(one, starts[one]) + shift_by)
    elif to_offset is not None:
        after = to(lambda _: to_offset)
    else:
        after = dict(starts if to_earliest else ends)
    if execute:
        _commit(client, group, after)
    output.rows([_row(one, before, after) for one in places], json)


def _millis(text: str) -> int:
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadUsage(f"--to-datetime takes an ISO 8601 time, not {text!r}") from None


def _row(place: Place, before: Offsets, after: Offsets) -> dict[str, Any]:
    name, index = place
    return {
        "topic": name,
        "partition": index,
        "committed": before.get(place),
        "reset_to": after[place],
    }


def _committed(client: AdminClient, group: str) -> Offsets:
    asked = [ConsumerGroupTopicPartitions(group)]
    [found] = await_all(client.list_consumer_group_offsets(asked))
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions}


def _places(client: AdminClient, names: list[str]) -> list[Place]:
    """Every partition of these topics. All are asked for: to ask for one by its name
    is to create it."""
    there = client.list_topics(timeout=TIMEOUT_S).topics
    for name in names:
        if name not in there:
            raise UserError(f"there is no topic {name!r}")
    return [(name, index) for name in names for index in sorted(there[name].partitions)]


def _commit(client: AdminClient, group: str, offsets: Offsets) -> None:
    parts = [TopicPartition(*one, offset) for one, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, parts)]
    [done] = await_all(client.alter_consumer_group_offsets(asked))
    for part in done.topic_partitions:
        if part.error is not None:
            raise UserError(
                f"{part.topic}/{part.partition} was not reset: {part.error.str()}"
            )
