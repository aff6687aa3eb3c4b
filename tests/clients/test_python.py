"""librdkafka, kafka-python and aiokafka, each held to what it can be held to."""

import importlib.metadata
import sys

import pytest

from tests.support.foreign import Client, Site
from tests.support.foreign_journey import travel

pytestmark = pytest.mark.foreign

OLD = ("none", "gzip", "snappy")
LZ4 = (*OLD, "lz4")
ALL = (*LZ4, "zstd")
BARE = frozenset({"headers", "transactions"})


def named(library: str) -> str:
    return f"{library} {importlib.metadata.version(library)}"


CONFLUENT = [
    Client(named("confluent-kafka"), "0.8.2", OLD, BARE | {"time", "group"}),
    Client(named("confluent-kafka"), "0.9.0", LZ4, BARE | {"time"}),
    Client(named("confluent-kafka"), "newest", ALL),
]
KAFKA_PYTHON = [
    Client(named("kafka-python"), "0.8.2", LZ4, BARE | {"time", "group"}),
    Client(named("kafka-python"), "0.9", LZ4, BARE | {"time"}),
    Client(named("kafka-python"), "0.10.2", LZ4, BARE),
    Client(named("kafka-python"), "0.11", LZ4),
    Client(named("kafka-python"), "1.1", LZ4),
    Client(named("kafka-python"), "2.5", ALL),
    Client(named("kafka-python"), "newest", ALL),
]
AIOKAFKA = Client(named("aiokafka"), "newest", ALL)


def make_the_journey(site: Site, client: Client, program: str) -> None:
    module = f"tests.clients.python.{program}"
    travel(site, client, (sys.executable, "-m", module, client.version))


@pytest.mark.parametrize("client", CONFLUENT, ids=str)
def test_librdkafka_makes_the_journey(site: Site, client: Client) -> None:
    make_the_journey(site, client, "librdkafka")


@pytest.mark.parametrize("client", KAFKA_PYTHON, ids=str)
def test_kafka_python_makes_the_journey(site: Site, client: Client) -> None:
    make_the_journey(site, client, "kafka_python")


def test_aiokafka_makes_the_journey(site: Site) -> None:
    """It asks the broker what it may speak, and cannot be held to a version."""
    make_the_journey(site, AIOKAFKA, "asyncio_client")
