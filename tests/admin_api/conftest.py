"""An admin plane in this process, before a real broker or before none."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from admin_api.app import create_app
from tests.support.ports import free_port
from tests.support.process import BrokerPart


class Plane:
    """HTTP asked of the application itself, without a socket."""

    def __init__(self, bootstrap: str, data_dir: Path, timeout_s: float = 10.0) -> None:
        self.data_dir = data_dir
        self._app = create_app(bootstrap, data_dir, timeout_s)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://plane"
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    part = BrokerPart(tmp_path_factory.mktemp("admin") / "data")
    part.start()
    yield Plane(part.bootstrap, part.data_dir)
    part.end()


@pytest.fixture
def lonely(tmp_path: Path) -> Plane:
    """A plane whose broker is not there; its status files are the test's to write."""
    return Plane(f"127.0.0.1:{free_port()}", tmp_path, timeout_s=0.5)
