"""One broker for all client tests: what unmodified clients meet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.foreign import Site, build, toolchain
from tests.support.process import BrokerPart

PROGRAMS = Path(__file__).parent / "java" / "programs"
PATH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPart]:
    data_dir = tmp_path_factory.mktemp("clients") / "data"
    part = BrokerPart(data_dir, "groups.initial_rebalance_delay_ms=200")
    part.start()
    yield part
    part.end()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    name = request.node.name.replace("[", "-").replace("]", "")
    module = request.node.path.stem.removeprefix("test_")
    return f"{module}-{name}"[:200]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What foreign clients meet: a broker and a compactor that leaves nothing hot."""
    started = Site(tmp_path_factory.mktemp("site"))
    yield started
    started.end()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of Kafka's own programs."""
    maven = toolchain("Maven", "mvn")
    path = tmp_path_factory.mktemp("programs") / "path"
    build(maven, "-q", "-B", PATH, f"-Dmdep.outputFile={path}", cwd=PROGRAMS)
    return path.read_text().strip()
