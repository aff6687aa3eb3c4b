"""Why clients cannot come, and what else is not well."""

import asyncio

from confluent_kafka import KafkaException

from admin_api.kafka import Kafka
from admin_api.lake import Lake
from admin_api.status import StatusFiles
from broker.catalog.errors import CatalogError
from broker.status.schema import BrokerStatus, CompactorStatus, held_sentences

PROBE_TIMEOUT_S = 2.0
NO_BROKER = "the broker's status file is missing or stale"
NO_COMPACTOR = (
    "no compactor is running, or it hangs: acknowledged records wait in the segments"
)


async def unreachable(kafka: Kafka, status: StatusFiles, lake: Lake) -> list[str]:
    """Why the broker of the data directory does not answer; nothing if it does."""
    try:
        found = await kafka.cluster(PROBE_TIMEOUT_S)
    except KafkaException as error:
        return [f"the broker at {kafka.bootstrap} does not answer: {error.args[0]}"]
    own = await asyncio.to_thread(_own_cluster, status, lake)
    if own in (None, found.cluster_id):
        return []
    return [
        f"at {kafka.bootstrap} answers cluster {found.cluster_id}, and the data "
        f"directory is of cluster {own}: say where its broker is (--bootstrap)"
    ]


def _own_cluster(status: StatusFiles, lake: Lake) -> str | None:
    """The id of the data directory's cluster; None if nobody has said it. Its broker
    says it for less than the catalog, which takes SQLAlchemy."""
    broker = status.broker()
    try:
        return (broker.cluster_id if broker else "") or lake.cluster_id()
    except CatalogError:
        return None


def problems_of(broker: BrokerStatus | None) -> tuple[str, ...]:
    """Why clients cannot do all they may, as the broker says."""
    return (NO_BROKER,) if broker is None else broker.problems


def warnings_of(
    broker: BrokerStatus | None, compactor: CompactorStatus | None
) -> list[str]:
    """What is not well and keeps no client from coming."""
    warnings = list(broker.warnings) if broker else []
    if compactor is None:
        return [*warnings, NO_COMPACTOR]
    held = [f"{topic}: {why}" for topic, why in held_sentences(compactor).items()]
    return [*warnings, *compactor.problems, *held]
