"""An admin plane in this process, before a real broker or before none."""

import asyncio
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from admin_api.access.exposure import listen
from admin_api.access.tokens import FILE, Role, Tokens
from admin_api.app import create_app
from admin_api.server import configured
from broker.settings import Settings
from tests.support.patience import IDLE_S, wait_until
from tests.support.ports import nobody
from tests.support.process import BrokerPart, Part

HERE = Path(__file__).parent
SHARING = (
    "access/test_callers", "acls/test_endpoints", "brokers/test_endpoints",
    "clusters/test_endpoints", "configs/test_routes", "configs/test_several",
    "connections/test_endpoints", "loggers/test_endpoints", "partitions/test_endpoints",
    "reading/test_following", "reading/test_gather", "reading/test_lookback",
    "reading/test_plan", "reading/test_readers", "records/test_current",
    "records/test_delivery", "records/test_endpoints", "records/test_entries",
    "resets/test_reset", "security/test_endpoints", "test_bodies", "test_framing",
    "test_queries", "test_slashes", "topics/test_endpoints",
)  # fmt: skip
"""Modules that look at topics and groups of their own, under names that no other of
them has, and leave the rest of a broker and its plane as they found it. They are half
of those that need one, whose start takes half a second of processor time."""


class Plane:
    """HTTP asked of the application itself, without a socket."""

    def __init__(
        self, bootstrap: str, data_dir: Path, timeout_s: float = IDLE_S
    ) -> None:
        self.bootstrap, self.data_dir = bootstrap, data_dir
        settings = Settings(data_dir=data_dir, admin_hosts="plane")
        self.app = create_app(bootstrap, settings, timeout_s)
        self.broker: Part | None = None

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    def client(self) -> httpx.AsyncClient:
        """Who asks it several things at once."""
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://plane")

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.ask("POST", path, json=body)

    @property
    def cluster(self) -> str:
        """The cluster's URL."""
        [cluster] = self.get("/v3/clusters").json()["data"]
        return cluster["metadata"]["self"]

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        """Make a topic; its URL."""
        named = [{"name": name, "value": value} for name, value in configs.items()]
        body = {
            "topic_name": topic,
            "partitions_count": partitions,
            "configs": named,
        }
        made = self.post(f"{self.cluster}/topics", body)
        assert made.status_code == 201, made.text
        return made.json()["metadata"]["self"]

    def close(self) -> None:
        self.app.state.producer.close()


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The plane of all modules that are `SHARING`, on its broker."""
    yield from _started(tmp_path_factory)


@pytest.fixture(scope="module")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """One before a broker of the module's own, or the one of those that share it."""
    if str(request.path.relative_to(HERE).with_suffix("")) in SHARING:
        shared: Plane = request.getfixturevalue("lasting")
        yield shared
    else:
        yield from _started(tmp_path_factory)


def _started(places: pytest.TempPathFactory) -> Iterator[Plane]:
    part = BrokerPart(places.mktemp("admin") / "data")
    part.start()
    plane = Plane(part.bootstrap, part.data_dir)
    plane.broker = part
    yield plane
    plane.close()
    part.end()
    shutil.rmtree(part.data_dir)  # each broker's segments are 200 MB


@pytest.fixture
def guarded(plane: Plane) -> Iterator[dict[Role, dict[str, str]]]:
    """The plane with a token for each role: the headers that send it."""
    tokens = Tokens(plane.data_dir)
    made = {role: tokens.create(role, "", 0)[1] for role in Role}
    yield {role: {"authorization": f"Bearer {text}"} for role, text in made.items()}
    (plane.data_dir / FILE).unlink()


@pytest.fixture(scope="module")
def address(plane: Plane) -> Iterator[tuple[str, int]]:
    """Where the plane serves a real socket, which the kernel keeps little for."""
    bound = listen("127.0.0.1", 0)
    for kept in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        bound.setsockopt(socket.SOL_SOCKET, kept, 1 << 16)
    config = configured(plane.app)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield bound.getsockname()
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[Plane]:
    """A plane whose broker is not there; its status files are the test's to write."""
    with nobody() as address:
        plane = Plane(address, tmp_path, timeout_s=0.5)
        yield plane
        plane.close()
