"""``lakelog topic``: create, list, describe, alter, trim and delete topics."""

from typing import Annotated, Any

import typer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from broker.cli import output
from broker.cli.client import TIMEOUT_S, admin, await_all
from broker.cli.failures import BadUsage, UserError
from broker.cli.options import (
    BOOTSTRAP_DEFAULT,
    INT32_MAX,
    INT64_MAX,
    Bootstrap,
    Json,
    named,
    pairs,
)

app = typer.Typer(
    help="Create, look at, change, trim and delete topics.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The topic's name.", callback=named)]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, max=100_000, help="How many it has."),
]
Configs = Annotated[
    list[str] | None, typer.Option("-X", help="config=value; repeatable.")
]

Before = Annotated[
    int,
    typer.Option(
        "--before", min=-1, max=INT64_MAX, help="The first offset that stays."
    ),
]
Partition = Annotated[
    int | None,
    typer.Option("--partition", min=0, max=INT32_MAX, help="Of this one; else of all."),
]


@app.command()
def create(
    name: Name,
    partitions: Partitions = None,
    extra: Configs = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Create a topic; without --partitions it gets the broker's default."""
    topic = NewTopic(
        name,
        num_partitions=partitions or -1,
        replication_factor=-1,
        config=dict(pairs(extra)),
    )
    client = admin(bootstrap)
    await_all(client.create_topics([topic], operation_timeout=TIMEOUT_S))
    output.one(_summary(client, name), json)


@app.command("list")
def list_(bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False) -> None:
    """All topics with their partition counts."""
    found = admin(bootstrap).list_topics(timeout=TIMEOUT_S).topics
    output.rows(
        [
            {"topic": name, "partitions": len(found[name].partitions)}
            for name in sorted(found)
        ],
        json,
    )


@app.command()
def describe(
    name: Name, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False
) -> None:
    """Partitions and the configurations that differ from the defaults."""
    output.one(_summary(admin(bootstrap), name), json)


@app.command()
def alter(
    name: Name,
    partitions: Partitions = None,
    extra: Configs = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Raise the partition count; set configurations (an empty value resets one)."""
    client = admin(bootstrap)
    if partitions:
        await_all(client.create_partitions([NewPartitions(name, partitions)]))
    if extra:
        changes = [_change(key, value) for key, value in pairs(extra)]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        await_all(client.incremental_alter_configs([resource]))
    output.one(_summary(client, name), json)


@app.command()
def delete(
    name: Name, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, json: Json = False
) -> None:
    """Delete a topic; its table goes after a delay."""
    client = admin(bootstrap)
    await_all(client.delete_topics([name], operation_timeout=TIMEOUT_S))
    output.one({"deleted": name}, json)


@app.command()
def trim(
    name: Name,
    before: Before,
    partition: Partition = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    json: Json = False,
) -> None:
    """Delete the records below an offset, for good; -1 deletes all there are."""
    client = admin(bootstrap)
    found = client.list_topics(timeout=TIMEOUT_S).topics.get(name)
    if found is None:
        raise UserError(f"there is no topic {name!r}")
    if partition is not None and partition not in found.partitions:
        raise UserError(f"there is no partition {partition} of {name!r}")
    indexes = sorted(found.partitions) if partition is None else [partition]
    if partition is None and before >= 0 and len(indexes) > 1:
        raise BadUsage("an offset is one of a --partition; -1 is the end of each")
    asked = [TopicPartition(name, index, before) for index in indexes]
    done = await_all(client.delete_records(asked))
    rows = zip(indexes, done, strict=True)
    output.rows(
        [
            {"topic": name, "partition": index, "begins_at": one.low_watermark}
            for index, one in rows
        ],
        json,
    )


def _change(key: str, value: str) -> ConfigEntry:
    operation = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
    return ConfigEntry(key, value or None, incremental_operation=operation)


def _summary(client: AdminClient, name: str) -> dict[str, Any]:
    # all topics are asked for: to ask for one by name is to create it
    found = client.list_topics(timeout=TIMEOUT_S).topics.get(name)
    if found is None:
        raise UserError(f"there is no topic {name!r}")
    [configs] = await_all(
        client.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
    )
    own = {key: entry.value for key, entry in configs.items() if not entry.is_default}
    return {"topic": name, "partitions": len(found.partitions), "configs": own}
