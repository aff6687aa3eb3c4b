"""Why clients cannot come, and what else is not well."""

from confluent_kafka import KafkaException

from admin_api.kafka import Kafka
from broker.status.schema import BrokerStatus, CompactorStatus, held_sentences

PROBE_TIMEOUT_S = 2.0
NO_BROKER = "the broker's status file is missing or stale"
NO_COMPACTOR = (
    "no compactor is running, or it hangs: acknowledged records wait in the segments"
)


async def unreachable(kafka: Kafka) -> list[str]:
    """Why the broker does not answer; nothing if it does."""
    try:
        await kafka.cluster(PROBE_TIMEOUT_S)
    except KafkaException as error:
        return [f"the broker at {kafka.bootstrap} does not answer: {error.args[0]}"]
    return []


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
