"""What endpoints may ask for in their signatures."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import AfterValidator, BeforeValidator, StringConstraints

from admin_api.fields import CLUSTER, GROUP, TOPIC
from admin_api.integers import DIGITS
from admin_api.internal import Internal
from admin_api.kafka import Kafka
from admin_api.lag_history.recorder import LagRecorder
from admin_api.lake import Lake
from admin_api.metrics.exporter import Exporter
from admin_api.problems import Problem
from admin_api.reading.readers import Readers
from admin_api.records.producer import RecordProducer
from admin_api.refusals import unless_refused
from admin_api.resources import Place, cluster_place
from admin_api.status import StatusFiles
from admin_api.tables.facts import FactsReader
from broker.clock import Clock
from broker.settings import Settings
from broker.topics import names

ID_MAX = 2**31 - 1
TEXT_BYTES_MAX = 2**15 - 1
"""A Kafka string's length is an int16. Of a longer one librdkafka writes the length cut
to 16 bits: the broker takes another text, or ends the connection of all requests."""


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no text") from None
    return text


def _short(text: str) -> str:
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise ValueError(f"a text has at most {TEXT_BYTES_MAX} bytes in Kafka")
    return text


def _written(value: Any) -> Any:
    """A number or a boolean as a text, as it would be written in JSON."""
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


LongText = Annotated[
    str, StringConstraints(pattern=r"^[^\x00]*$"), AfterValidator(_encodable)
]
"""Text that UTF-8 has, without the character that ends a text in librdkafka; for what
is no Kafka string, as the names of headers."""
Text = Annotated[LongText, AfterValidator(_short)]
"""Text that fits a Kafka string: whatever a request says that the broker is asked."""
ConfigText = Annotated[Text | None, BeforeValidator(_written)]
"""A configuration's value. Clients of Confluent's proxy say `5000` and `true` as well:
its parser, Jackson, makes texts of numbers and booleans."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of a request, as the broker just described it."""

    id: str
    place: Place
    controller_id: int
    nodes: tuple[Any, ...]
    """librdkafka's Node, by their ids."""


def _kafka(request: Request) -> Kafka:
    kafka: Kafka = request.app.state.kafka
    return kafka


def _status(request: Request) -> StatusFiles:
    status: StatusFiles = request.app.state.status
    return status


def _producer(request: Request) -> RecordProducer:
    producer: RecordProducer = request.app.state.producer
    return producer


def _lake(request: Request) -> Lake:
    lake: Lake = request.app.state.lake
    return lake


def _facts(request: Request) -> FactsReader:
    facts: FactsReader = request.app.state.facts
    return facts


def _readers(request: Request) -> Readers:
    readers: Readers = request.app.state.readers
    return readers


def _clock(request: Request) -> Clock:
    clock: Clock = request.app.state.clock
    return clock


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _lag_recorder(request: Request) -> LagRecorder:
    recorder: LagRecorder = request.app.state.lag_recorder
    return recorder


def _exporter(request: Request) -> Exporter:
    exporter: Exporter = request.app.state.exporter
    return exporter


def _internal(request: Request) -> Internal:
    internal: Internal = request.app.state.internal
    return internal


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


KafkaDep = Annotated[Kafka, Depends(_kafka)]
ProducerDep = Annotated[RecordProducer, Depends(_producer)]
StatusDep = Annotated[StatusFiles, Depends(_status)]
LakeDep = Annotated[Lake, Depends(_lake)]
FactsDep = Annotated[FactsReader, Depends(_facts)]
ReadersDep = Annotated[Readers, Depends(_readers)]
ClockDep = Annotated[Clock, Depends(_clock)]
SettingsDep = Annotated[Settings, Depends(_settings)]
LagRecorderDep = Annotated[LagRecorder, Depends(_lag_recorder)]
ExporterDep = Annotated[Exporter, Depends(_exporter)]
InternalDep = Annotated[Internal, Depends(_internal)]
BaseDep = Annotated[str, Depends(_base)]
"""Where the plane is, without a slash at the end."""


async def _begin(kafka: KafkaDep) -> None:
    kafka.begin()


ONE_DEADLINE = Depends(_begin)
"""Of a router: all that a route of it asks the broker has the time of one question."""


async def _only_cluster(base: BaseDep, kafka: KafkaDep) -> Cluster:
    found = await unless_refused(kafka.cluster(), kafka.bootstrap)
    return Cluster(
        id=found.cluster_id,
        place=cluster_place(base, found.cluster_id),
        controller_id=found.controller.id if found.controller else -1,
        nodes=tuple(sorted(found.nodes, key=lambda node: int(node.id))),
    )


OnlyClusterDep = Annotated[Cluster, Depends(_only_cluster)]


def _cluster(
    cluster_id: Annotated[
        Text,
        Path(
            description="The id of the cluster, as `/v3/clusters` says it.",
            examples=[CLUSTER],
        ),
    ],
    own: OnlyClusterDep,
) -> Cluster:
    if own.id != cluster_id:
        raise Problem(404, f"Cluster {cluster_id} cannot be found.")
    return own


ClusterDep = Annotated[Cluster, Depends(_cluster)]


def _topic_name(
    topic_name: Annotated[str, Path(description="A topic's name.", examples=[TOPIC])],
) -> str:
    return names.validate(topic_name)


BrokerId = Annotated[
    int,
    Path(
        ge=0,
        le=ID_MAX,
        description="A broker's id, which is its setting `node_id`.",
        examples=[1],
    ),
    DIGITS,
]


def _broker(
    broker_id: BrokerId,
    cluster: ClusterDep,
) -> Any:
    found = next((node for node in cluster.nodes if node.id == broker_id), None)
    if found is None:
        raise Problem(404, f"Broker {broker_id} cannot be found.")
    return found


TopicNameDep = Annotated[str, Depends(_topic_name)]
BrokerDep = Annotated[Any, Depends(_broker)]
"""A broker that is there, as librdkafka's Node."""
PartitionId = Annotated[
    int,
    Path(ge=0, le=ID_MAX, description="A partition of the topic.", examples=[0]),
    DIGITS,
]
GroupId = Annotated[
    Text,
    Path(min_length=1, description="The id of a consumer group.", examples=[GROUP]),
]
