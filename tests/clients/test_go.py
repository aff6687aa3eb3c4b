"""franz-go, sarama and segmentio's kafka-go, each held to what it can be held to."""

from pathlib import Path

import pytest

from tests.support.foreign import Client, Site, build, toolchain
from tests.support.foreign_journey import travel

pytestmark = pytest.mark.foreign

SOURCES = Path(__file__).parent / "go"
OLD = ("none", "gzip", "snappy")
LZ4 = (*OLD, "lz4")
ALL = (*LZ4, "zstd")
BARE = frozenset({"headers", "transactions"})

FRANZ = [
    Client("franz-go 1.22.2", "0.8.2", OLD, BARE | {"time", "group"}),
    Client("franz-go 1.22.2", "0.9.0", OLD, BARE | {"time"}),
    Client("franz-go 1.22.2", "0.10.2", LZ4, BARE),
    Client("franz-go 1.22.2", "0.11.0", LZ4),
    Client("franz-go 1.22.2", "2.8", ALL),
    Client("franz-go 1.22.2", "4.3", ALL),
]
SARAMA = [
    Client("sarama 1.61.1", "0.8.2.0", OLD, BARE | {"time", "group"}),
    Client("sarama 1.61.1", "0.10.2.0", LZ4, BARE),
    Client("sarama 1.61.1", "1.0.0", LZ4),
    Client("sarama 1.61.1", "2.8.0", ALL),
    Client("sarama 1.61.1", "4.3.0", ALL),
]
KAFKA_GO_LACKS = frozenset({"transactions", "empty bytes"})
SEGMENTIO = [Client("kafka-go 0.4.51", "4.3", ALL, KAFKA_GO_LACKS)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = toolchain("Go", "go")
    place = tmp_path_factory.mktemp("go")
    build(go, "build", "-o", f"{place}/", "./...", cwd=SOURCES)
    return place


@pytest.mark.parametrize("client", FRANZ, ids=str)
def test_franz_go_makes_the_journey(site: Site, programs: Path, client: Client) -> None:
    travel(site, client, (str(programs / "franz"), client.version))


@pytest.mark.parametrize("client", SARAMA, ids=str)
def test_sarama_makes_the_journey(site: Site, programs: Path, client: Client) -> None:
    travel(site, client, (str(programs / "sarama"), client.version))


@pytest.mark.parametrize("client", SEGMENTIO, ids=str)
def test_kafka_go_makes_the_journey(site: Site, programs: Path, client: Client) -> None:
    travel(site, client, (str(programs / "segmentio"), client.version))
