"""``lakelog group``: look at consumer groups, delete them, reset their offsets."""

from typing import Annotated, Any

import typer
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from broker.cli import output
from broker.cli.client import TIMEOUT_S, admin, await_all
from broker.cli.failures import UserError
from broker.cli.group_offsets import reset_offsets
from broker.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json

app = typer.Typer(
    help="Look at consumer groups, delete them, and move them to other offsets.",
    no_args_is_help=True,
)
app.command("reset-offsets")(reset_offsets)

Group = Annotated[str, typer.Argument(help="The group's id.")]


@app.command("list")
def list_(bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False) -> None:
    """All groups with their states."""
    client = admin(bootstrap)
    found = client.list_consumer_groups().result(timeout=TIMEOUT_S)
    output.rows(
        [
            {"group": group.group_id, "state": group.state.name}
            for group in sorted(found.valid, key=lambda group: group.group_id)
        ],
        json,
    )


@app.command()
def describe(
    group: Group, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False
) -> None:
    """State, members, and per partition: committed offset, end and lag."""
    client = admin(bootstrap)
    [found] = await_all(client.describe_consumer_groups([group]))
    if found.state is ConsumerGroupState.DEAD:
        raise UserError(f"there is no group {group!r}")
    offsets = _offsets(client, group)
    if json:
        output.one(
            {
                "group": group,
                "state": found.state.name,
                "members": [_member(member) for member in found.members],
                "offsets": offsets,
            },
            as_json=True,
        )
        return
    output.one({"group": group, "state": found.state.name}, as_json=False)
    for member in map(_member, found.members):
        output.one(member, as_json=False)
    output.rows(offsets, as_json=False)


@app.command()
def delete(
    group: Group, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False
) -> None:
    """Delete an empty group with its committed offsets."""
    client = admin(bootstrap)
    await_all(client.delete_consumer_groups([group]))
    output.one({"deleted": group}, json)


def _member(member: Any) -> dict[str, Any]:
    assigned = member.assignment.topic_partitions if member.assignment else []
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host,
        "assignment": [f"{part.topic}/{part.partition}" for part in assigned],
    }


def _offsets(client: AdminClient, group: str) -> list[dict[str, Any]]:
    asked = [ConsumerGroupTopicPartitions(group)]
    [found] = await_all(client.list_consumer_group_offsets(asked))
    parts = sorted(found.topic_partitions, key=lambda p: (p.topic, p.partition))
    ends = _ends(client, parts)
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "committed": part.offset,
            "end": (end := ends.get((part.topic, part.partition))),
            "lag": None if end is None else max(0, end - part.offset),
        }
        for part in parts
    ]


def _ends(
    client: AdminClient, parts: list[TopicPartition]
) -> dict[tuple[str, int], int]:
    if not parts:
        return {}
    asked = {TopicPartition(p.topic, p.partition): OffsetSpec.latest() for p in parts}
    found = client.list_offsets(asked)
    return {
        (part.topic, part.partition): future.result(timeout=TIMEOUT_S).offset
        for part, future in found.items()
        if future.exception() is None
    }
