"""One broker for all that is bad, and a witness who must not notice.

The witness was connected before the first test and goes on after each of them, with
every record that it ever sent. The broker's memory stays within a bound, no handler
fails. When all is over the broker stops in order, ``lakelog check`` finds nothing, and
it starts again.
"""

import zlib
from collections.abc import Iterator

import psutil
import pytest

from tests.support.peer import Peer, Witness, batch_of
from tests.support.process import BrokerPart, lakelog

MEMORY_GROWTH_MAX = 320 << 20
"""In one test: a few bombs decompressed, receive buffers, and the log."""


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPart]:
    data_dir = tmp_path_factory.mktemp("bad-input") / "data"
    part = BrokerPart(data_dir, "wal.segment_bytes=8Mi", "network.half_frame_ms=2000")
    part.start()
    yield part
    alive = part.alive
    code = part.stop() if alive else None
    said = part.log.read_text()
    assert alive, said[-3000:]
    assert code == 0
    assert "a handler failed" not in said
    assert " error " not in said
    lakelog("check", "--data-dir", str(data_dir))
    part.start()
    part.end()


@pytest.fixture(scope="package")
def witness(broker: BrokerPart) -> Iterator[Witness]:
    witness = Witness(broker.bootstrap)
    witness.goes_on()
    yield witness
    witness.close()


@pytest.fixture(autouse=True)
def nobody_else_notices(broker: BrokerPart, witness: Witness) -> Iterator[None]:
    assert broker.process is not None
    memory = psutil.Process(broker.process.pid)
    before = memory.memory_info().rss
    yield
    witness.goes_on()
    assert memory.memory_info().rss - before < MEMORY_GROWTH_MAX


@pytest.fixture
def peer(broker: BrokerPart) -> Iterator[Peer]:
    with Peer(broker.bootstrap) as one:
        yield one


@pytest.fixture
def topic(request: pytest.FixtureRequest, peer: Peer) -> str:
    """A topic of the test's own, with one good record in it."""
    name = f"t-{zlib.crc32(request.node.name.encode()):08x}"
    peer.create(name)
    assert peer.produce(name, batch_of(b"before")).error_code == 0
    return name
