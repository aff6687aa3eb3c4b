"""Configurations in the Confluent v3 shape, and what a client alters of them."""

from enum import StrEnum
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource
from pydantic import BaseModel, Field

from admin_api.dependencies import ConfigText, Text
from admin_api.fields import (
    TOPIC,
    BrokerIdField,
    ErrorCodeField,
    KindField,
    MessageField,
    TopicNameField,
    ValidateOnlyField,
    shown_as,
)
from admin_api.problems import Problem
from admin_api.resources import Body, Collection, Resource

ALTERATIONS_MAX = 1000


class ConfigSynonym(BaseModel):
    """A place that the value may come from."""

    name: str = Field(
        description="The name of the configuration there.",
        examples=["log.retention.ms"],
    )
    value: str | None = Field(
        description="Its value there; null where it is sensitive.",
        examples=["604800000"],
    )
    source: str = Field(description="Which place it is.", examples=["DEFAULT_CONFIG"])


class Config(Resource):
    """A value, and where it comes from."""

    name: str = Field(
        description="The name of the configuration.", examples=["retention.ms"]
    )
    value: str | None = Field(
        description="The value that counts now, as text; null where it is "
        "sensitive or has none.",
        examples=["604800000"],
    )
    is_default: bool = Field(description="Whether nobody set it.")
    is_read_only: bool = Field(
        description="Whether it cannot be changed while the broker runs."
    )
    is_sensitive: bool = Field(
        description="Whether it is a secret, whose value nobody is shown."
    )
    source: str = Field(
        description="Where the value comes from: `DYNAMIC_TOPIC_CONFIG`, "
        "`DYNAMIC_BROKER_CONFIG`, `DYNAMIC_DEFAULT_BROKER_CONFIG`, "
        "`STATIC_BROKER_CONFIG` or `DEFAULT_CONFIG`.",
        examples=["DYNAMIC_TOPIC_CONFIG"],
    )
    synonyms: list[ConfigSynonym] = Field(
        description="All places that have a value for it, the one that counts first."
    )


class TopicConfig(Config):
    """A configuration of a topic."""

    kind: KindField = "KafkaTopicConfig"
    topic_name: TopicNameField


class TopicConfigList(Collection):
    """Configurations of topics."""

    kind: KindField = "KafkaTopicConfigList"
    data: list[TopicConfig] = Field(description="By topic and name.")


class BrokerConfig(Config):
    """A configuration of a broker."""

    kind: KindField = "KafkaBrokerConfig"
    broker_id: BrokerIdField


class BrokerConfigList(Collection):
    """Configurations of brokers."""

    kind: KindField = "KafkaBrokerConfigList"
    data: list[BrokerConfig] = Field(description="By broker and name.")


class ClusterConfig(Config):
    """A configuration that is set for all brokers together."""

    kind: KindField = "KafkaClusterConfig"
    config_type: str = Field(
        default="BROKER", description="Whose it is: that of brokers."
    )


class ClusterConfigList(Collection):
    """What is set for all brokers together."""

    kind: KindField = "KafkaClusterConfigList"
    data: list[ClusterConfig] = Field(description="By name.")


class UpdateConfig(Body):
    """A new value."""

    value: ConfigText = Field(
        default=None,
        description="The value as text; a number or boolean will do.",
        examples=["86400000"],
    )


class AlterOperation(StrEnum):
    """SET: give it the value; DELETE: give it back to its default."""

    SET = "SET"
    DELETE = "DELETE"


class Alteration(Body):
    """One configuration to set, or to give back to its default."""

    name: Text = Field(
        description="The name of the configuration.", examples=["retention.ms"]
    )
    value: ConfigText = Field(
        default=None,
        description="The value to set as text; a number or boolean will do; null "
        "for DELETE.",
        examples=["86400000"],
    )
    operation: AlterOperation | None = Field(
        default=None, description="What to do with it; null is SET.", examples=["SET"]
    )

    def entry(self) -> ConfigEntry:
        """What the broker is asked for. Raises Problem 40002 for setting null."""
        said = self.operation or AlterOperation.SET
        if said is AlterOperation.SET and self.value is None:
            raise Problem(40002, f"Null value not supported for {self.name}.")
        operation = AlterConfigOpType[said.value]
        return ConfigEntry(self.name, self.value, incremental_operation=operation)


class AlterConfigs(Body):
    """Several alterations: all of them take effect, or none."""

    data: list[Alteration] = Field(
        max_length=ALTERATIONS_MAX,
        description="What to alter, each configuration once.",
    )
    validate_only: ValidateOnlyField = None


class TopicAlterations(Body):
    """What to alter of one topic."""

    topic_name: Text = Field(description="The name of the topic.", examples=[TOPIC])
    configs: list[Alteration] = Field(
        max_length=ALTERATIONS_MAX,
        description="What to alter, each configuration once.",
    )


class AlterTopicsConfigs(Body):
    """Alterations of several topics; each topic succeeds or fails by itself."""

    model_config = shown_as(
        {
            "data": [
                {
                    "topic_name": TOPIC,
                    "configs": [{"name": "retention.ms", "value": "86400000"}],
                }
            ],
            "validate_only": True,
        }
    )

    data: list[TopicAlterations] = Field(
        max_length=ALTERATIONS_MAX, description="What to alter, by topic."
    )
    validate_only: ValidateOnlyField = None


class TopicFailure(BaseModel):
    """A topic that was not altered."""

    topic_name: TopicNameField
    error_code: ErrorCodeField
    message: MessageField

    @property
    def is_in_doubt(self) -> bool:
        """Whether it may have been altered all the same, as where time ran out."""
        return Problem(self.error_code, self.message).status >= 500


class TopicFailures(BaseModel):
    """The topics whose alterations failed."""

    failures: list[TopicFailure] = Field(
        description="Those that failed; all others were altered."
    )


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
