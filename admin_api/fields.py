"""Fields that many shapes have: what each means, and how it looks.

A name means the same wherever the OpenAPI document has it, so it is explained once,
here; what only one shape has is explained there.
"""

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

BASE: Final = "http://127.0.0.1:8082"
CLUSTER: Final = "S4JlPv2VR9SbW9pDkN_LcQ"
TOPIC: Final = "orders"
GROUP: Final = "billing"
CONSUMER: Final = "rdkafka-0f6b6d2e-4c1b-4d4a-9a53-0d3f2f1c7a10"
TOPIC_URL: Final = f"{BASE}/v3/clusters/{CLUSTER}/topics/{TOPIC}"
TIME_MS: Final = 1_767_225_600_000
"""The beginning of 2026."""


def shown_as(*examples: dict[str, Any]) -> ConfigDict:
    """Of a body: what a client may send just so."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


KindField = Annotated[
    str, Field(description="What this is; all objects of one shape say the same.")
]
ClusterIdField = Annotated[
    str, Field(description="The id of the cluster that it is in.", examples=[CLUSTER])
]
TopicNameField = Annotated[
    str, Field(description="The name of the topic.", examples=[TOPIC])
]
PartitionIdField = Annotated[
    int, Field(description="The number of the partition, from 0.", examples=[0])
]
BrokerIdField = Annotated[
    int, Field(description="The id of the broker (`node_id`).", examples=[1])
]
GroupIdField = Annotated[
    str, Field(description="The id of the consumer group.", examples=[GROUP])
]
ConsumerIdField = Annotated[
    str,
    Field(
        description="The id that the group's coordinator gave the member; empty where "
        "nobody has the partition now.",
        examples=[CONSUMER],
    ),
]
InstanceIdField = Annotated[
    str | None,
    Field(
        description="`group.instance.id` of a static member; null: it has none.",
        examples=["billing-1"],
    ),
]
ClientIdField = Annotated[
    str,
    Field(description="`client.id`, as the client chose it.", examples=["billing-app"]),
]
TableNameField = Annotated[
    str, Field(description="The topic whose table it is.", examples=[TOPIC])
]
FilesField = Annotated[
    int, Field(description="Parquet files that the table's version has.", examples=[12])
]
ErrorCodeField = Annotated[
    int,
    Field(
        description="Why, as a number: its first three digits are an HTTP status.",
        examples=[40403],
    ),
]
MessageField = Annotated[
    str,
    Field(
        description="Why, in a sentence.",
        examples=["This server does not host this topic-partition."],
    ),
]
TotalBytesField = Annotated[
    int, Field(description="How large the file system is.", examples=[107374182400])
]
FreeBytesField = Annotated[
    int,
    Field(description="What of it is free for the process.", examples=[53687091200]),
]
ValidateOnlyField = Annotated[
    bool | None,
    Field(
        description="Only look whether it could be done; nothing is changed then.",
        examples=[False],
    ),
]
