"""One broker for all client tests: what unmodified clients meet."""

from collections.abc import Iterator

import pytest

from tests.support.process import BrokerPart


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
