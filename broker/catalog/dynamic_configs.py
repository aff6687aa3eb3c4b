"""What clients have configured of resources that are no topics, a row for each.

A resource is a kind (``ConfigResource.Type``) and a name: a broker by its number, or
all of them (""), a group, a subscription to client metrics. The values are text.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy import delete as delete_from

from broker.catalog.schema import dynamic_configs
from broker.catalog.upserts import upsert

Resource = tuple[int, str]
"""Its kind and its name."""

BROKER: Final = 4
ALL_BROKERS: Final = ""


def store(
    connection: Connection, resource: Resource, configs: Mapping[str, str]
) -> None:
    """Write a resource's configuration over what was there; none is forgotten."""
    kind, name = resource
    if configs:
        row = {"resource_type": kind, "resource_name": name, "configs": dict(configs)}
        upsert(connection, dynamic_configs, [row])
        return
    connection.execute(
        delete_from(dynamic_configs).where(
            dynamic_configs.c.resource_type == kind,
            dynamic_configs.c.resource_name == name,
        )
    )


def load_of(connection: Connection, kind: int) -> dict[str, dict[str, str]]:
    """The configurations of all resources of a kind that have any, by name."""
    rows = connection.execute(
        select(dynamic_configs).where(dynamic_configs.c.resource_type == kind)
    )
    return {row.resource_name: row.configs for row in rows}


def load(connection: Connection) -> dict[Resource, dict[str, str]]:
    """The configurations of all resources that have any."""
    rows = connection.execute(select(dynamic_configs))
    return {(row.resource_type, row.resource_name): row.configs for row in rows}
