"""Whose configurations they are: a topic's, a broker's, or the cluster's.

The rules are the same for all of them, and are told here once: a name is looked for
before it is altered, as Confluent's proxy does, so that an unknown one is a 404.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from admin_api.configs.schemas import (
    Alteration,
    Config,
    value_fields,
)
from admin_api.dependencies import Cluster
from admin_api.kafka import Kafka
from admin_api.problems import Problem
from admin_api.resources import CollectionMetadata, Place

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Owner:
    """What has configurations."""

    cluster_id: str
    kind: ResourceType
    name: str
    place: Place
    collection: str = "configs"
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What a Config of it has besides."""
    asked: str = ""
    """Who answers for it, where it has no name to be asked by."""

    @property
    def resource(self) -> ConfigResource:
        """Whoever is asked."""
        return ConfigResource(self.kind, self.name or self.asked)

    def listed(self) -> CollectionMetadata:
        """Of the list of its configurations."""
        return self.place.listed(self.collection)

    def render(self, model: type[C], entry: Any) -> C:
        """One of its configurations, from librdkafka's ConfigEntry."""
        found = value_fields(entry)
        return model(
            metadata=self.place.at(self.collection, entry.name).metadata(),
            cluster_id=self.cluster_id,
            **self.fields,
            **found,
        )

    def render_all(self, model: type[C], found: Mapping[str, Any]) -> list[C]:
        """All of its configurations, sorted by name."""
        return [self.render(model, found[name]) for name in sorted(found)]


def cluster_owner(cluster: Cluster) -> Owner:
    """All brokers together: what is set for each of them at once.

    librdkafka cannot name them ("" in Kafka), so the controller is asked: what it has
    from there is known, unless a setting of its own stands before it.
    """
    return Owner(
        cluster.id,
        ResourceType.BROKER,
        "",
        cluster.place,
        "broker-configs",
        asked=str(cluster.controller_id),
    )


def topic_owner(cluster: Cluster, name: str) -> Owner:
    """A topic, there or not."""
    place, fields = cluster.place.at("topics", name), {"topic_name": name}
    return Owner(cluster.id, ResourceType.TOPIC, name, place, fields=fields)


def broker_owner(cluster: Cluster, broker_id: int) -> Owner:
    """A broker, there or not."""
    place, fields = cluster.place.at("brokers", broker_id), {"broker_id": broker_id}
    return Owner(cluster.id, ResourceType.BROKER, str(broker_id), place, fields=fields)


async def describe(kafka: Kafka, owner: Owner) -> Mapping[str, Any]:
    """Its configurations by name, as librdkafka's ConfigEntry."""
    [found] = await kafka.configs([owner.resource])
    if owner.name:
        return found
    common = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
    return {name: one for name, one in found.items() if one.source == common}


async def find(kafka: Kafka, owner: Owner, name: str) -> Any:
    """One of them. Raises Problem 404 where there is none of that name."""
    found = await describe(kafka, owner)
    _check_known(owner, found, [name])
    return found[name]


async def alter(
    kafka: Kafka,
    owner: Owner,
    alterations: Sequence[Alteration],
    validate_only: bool | None = False,
) -> None:
    """All alterations took effect. Raises Problem 404 for a name that is unknown."""
    found = await describe(kafka, owner) if owner.name else {}
    resource = wanted(owner, found, alterations)
    if resource is None:
        return
    [why] = await kafka.alter_configs([resource], bool(validate_only) or not owner.name)
    if why is not None:
        raise why
    if not owner.name:
        raise Problem(
            40002,
            "Settings cannot be made for all brokers at once here: Kafka's own tools "
            "make them (kafka-configs --entity-default).",
        )


def wanted(
    owner: Owner, found: Mapping[str, Any], alterations: Sequence[Alteration]
) -> ConfigResource | None:
    """What the broker is asked for, of an owner with such configurations; None if that
    is nothing. Raises Problem for what is not asked for."""
    names = [one.name for one in alterations]
    known = found if owner.name else dict.fromkeys(filter(None, names))
    _check_known(owner, known, names)  # "" is no setting of anybody
    if len(set(names)) < len(names):
        raise Problem(40002, "Each configuration can be altered once in a request.")
    if not names:
        return None
    return ConfigResource(
        owner.kind,
        owner.name or owner.asked,
        incremental_configs=[one.entry() for one in alterations],
    )


def _check_known(owner: Owner, found: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if name not in found:
            what = f"{owner.kind.name} {owner.name}"
            raise Problem(
                404,
                f"Config {name} cannot be found for {what} in cluster "
                f"{owner.cluster_id}.",
            )
