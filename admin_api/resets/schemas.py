"""Where a group is to read on, as ``/v1`` takes and shows it."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from admin_api.dependencies import ID_MAX, Text
from admin_api.fields import (
    TIME_MS,
    TOPIC,
    GroupIdField,
    PartitionIdField,
    TopicNameField,
    shown_as,
)
from admin_api.integers import NUMBER
from admin_api.resources import Body

TOPICS_MAX = 1_000
INT64_MAX = 2**63 - 1


class Target(StrEnum):
    """As `kafka-consumer-groups --reset-offsets` has them."""

    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    CURRENT = "CURRENT"
    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    SHIFT = "SHIFT"
    DURATION = "DURATION"


WITH_VALUE = frozenset({Target.OFFSET, Target.TIMESTAMP, Target.SHIFT, Target.DURATION})


class ResetTopic(Body):
    """A topic, or some of its partitions."""

    topic_name: Annotated[Text, StringConstraints(min_length=1, max_length=249)] = (
        Field(description="The name of the topic.", examples=[TOPIC])
    )
    partitions: list[Annotated[int, Field(ge=0, le=ID_MAX), NUMBER]] | None = Field(
        default=None,
        max_length=10_000,
        description="Its partitions; all of them if null.",
        examples=[[0]],
    )


class ResetOffsets(Body):
    """Which partitions, and where to."""

    model_config = shown_as(
        {
            "to": "EARLIEST",
            "topics": [{"topic_name": TOPIC, "partitions": [0]}],
            "dry_run": True,
        },
        {"to": "TIMESTAMP", "value": TIME_MS, "topics": [{"topic_name": TOPIC}]},
    )

    topics: list[ResetTopic] | None = Field(
        default=None,
        min_length=1,
        max_length=TOPICS_MAX,
        description="All that the group has committed offsets of if null.",
    )
    to: Target = Field(
        description="Where the group shall read on: at the beginning (EARLIEST) or "
        "the end (LATEST), where it is (CURRENT), at an OFFSET or a TIMESTAMP, so "
        "many records further (SHIFT), or where records are so old (DURATION)."
    )
    value: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX), NUMBER] | None = Field(
        default=None,
        description="OFFSET: an offset; TIMESTAMP: milliseconds since 1970; SHIFT: "
        "records, back if negative; DURATION: milliseconds back from now.",
        examples=[1200],
    )
    dry_run: bool = Field(default=True, description="Only say what would be committed.")

    @model_validator(mode="after")
    def _names_a_topic_once(self) -> Self:
        topics = [one.topic_name for one in self.topics or ()]
        if len({*topics}) < len(topics):
            raise ValueError("a topic is named twice: name all its partitions at once")
        return self

    @model_validator(mode="after")
    def _has_its_value(self) -> Self:
        if (self.value is not None) is not (self.to in WITH_VALUE):
            wanted = "needs a value" if self.to in WITH_VALUE else "takes no value"
            raise ValueError(f"{self.to} {wanted}")
        if self.value is not None and self.value < 0 and self.to is not Target.SHIFT:
            raise ValueError(f"{self.to} takes no negative value")
        return self


class ResetPartition(BaseModel):
    """A partition: where the group was, and where it reads on."""

    topic_name: TopicNameField
    partition_id: PartitionIdField
    current_offset: int | None = Field(
        description="What the group had committed; null: nothing.", examples=[1500]
    )
    new_offset: int = Field(description="Where it reads on.", examples=[1200])
    earliest_offset: int = Field(
        description="The first offset that can be read.", examples=[0]
    )
    latest_offset: int = Field(description="The end of the partition.", examples=[1500])


class Reset(BaseModel):
    """What was committed, or in a dry run would be."""

    consumer_group_id: GroupIdField
    dry_run: bool = Field(description="Whether nothing was committed.")
    data: list[ResetPartition] = Field(description="By topic and partition.")
