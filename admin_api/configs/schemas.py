"""Configurations in the Confluent v3 shape, and what a client alters of them."""

from enum import StrEnum
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource
from pydantic import BaseModel, Field

from admin_api.dependencies import Text
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Resource

ALTERATIONS_MAX = 1000


class ConfigSynonym(BaseModel):
    name: str
    value: str | None
    source: str


class Config(Resource):
    """A value, and where it comes from."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonym]


class TopicConfig(Config):
    kind: str = "KafkaTopicConfig"
    topic_name: str


class TopicConfigList(Collection):
    kind: str = "KafkaTopicConfigList"
    data: list[TopicConfig]


class BrokerConfig(Config):
    kind: str = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigList(Collection):
    kind: str = "KafkaBrokerConfigList"
    data: list[BrokerConfig]


class ClusterConfig(Config):
    kind: str = "KafkaClusterConfig"
    config_type: str = "BROKER"


class ClusterConfigList(Collection):
    kind: str = "KafkaClusterConfigList"
    data: list[ClusterConfig]


class UpdateConfig(Body):
    """A new value."""

    value: Text | None = Field(default=None, examples=["86400000"])


class AlterOperation(StrEnum):
    SET = "SET"
    DELETE = "DELETE"


class Alteration(Body):
    """One configuration to set, or to give back to its default."""

    name: Text = Field(examples=["retention.ms"])
    value: Text | None = Field(default=None, examples=["86400000"])
    operation: AlterOperation | None = None

    def entry(self) -> ConfigEntry:
        """What the broker is asked for. Raises Problem 40002 for setting null."""
        said = self.operation or AlterOperation.SET
        if said is AlterOperation.SET and self.value is None:
            raise Problem(40002, f"Null value not supported for {self.name}.")
        operation = AlterConfigOpType[said.value]
        return ConfigEntry(self.name, self.value, incremental_operation=operation)


class AlterConfigs(Body):
    """Several alterations: all of them take effect, or none."""

    data: list[Alteration] = Field(max_length=ALTERATIONS_MAX)
    validate_only: bool | None = None


class TopicAlterations(Body):
    topic_name: Text
    configs: list[Alteration] = Field(max_length=ALTERATIONS_MAX)


class AlterTopicsConfigs(Body):
    """Alterations of several topics; each topic succeeds or fails by itself."""

    data: list[TopicAlterations] = Field(max_length=ALTERATIONS_MAX)
    validate_only: bool | None = None


class TopicFailure(BaseModel):
    topic_name: str
    error_code: int
    message: str

    @property
    def is_in_doubt(self) -> bool:
        """Whether it may have been altered all the same, as where time ran out."""
        return Problem(self.error_code, self.message).status >= 500


class TopicFailures(BaseModel):
    """The topics whose alterations failed."""

    failures: list[TopicFailure]


def value_fields(entry: Any) -> dict[str, Any]:
    """The fields of a Config that librdkafka's ConfigEntry knows."""
    return {
        "name": entry.name,
        "value": entry.value,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "source": source_of(entry),
        "synonyms": _synonyms(entry),
    }


def _synonyms(entry: Any) -> list[ConfigSynonym]:
    """Each place that a value may come from, the one that counts first.

    librdkafka's client keeps the last of those with the same name, so the one that
    counts may be missing; what else is missing is known to nobody.
    """
    found = [
        ConfigSynonym(name=one.name, value=one.value, source=source_of(one))
        for one in entry.synonyms.values()
    ]
    source = source_of(entry)
    if found and source not in {one.source for one in found}:
        of_topic = entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        name = entry.name if of_topic else found[0].name
        found.insert(0, ConfigSynonym(name=name, value=entry.value, source=source))
    return found


def source_of(entry: Any) -> str:
    """Confluent's word for where a value comes from."""
    name: str = ConfigSource(entry.source).name
    return "UNKNOWN" if name == "UNKNOWN_CONFIG" else name
