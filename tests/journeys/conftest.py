"""Real programs, started once for as many journeys as can share them."""

from collections.abc import Iterator

import pytest

from tests.support.process import BrokerPart


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPart]:
    data_dir = tmp_path_factory.mktemp("journey") / "data"
    part = BrokerPart(data_dir, "groups.initial_rebalance_delay_ms=100")
    part.start()
    yield part
    part.end()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    name = request.node.name.replace("[", "-").replace("]", "")
    return f"{request.node.path.stem}-{name}"[:200]
