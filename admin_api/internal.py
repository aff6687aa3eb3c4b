"""What a part says on its internal endpoint: a Unix socket, or an address by setting.

A part serves one question after another, and the broker none of them on its loop alone;
here each has a thread and a deadline. A part of another machine has no such socket in
our data directory; at its address it is shown that we have the secret that both have.
"""

import asyncio
import http.client
import json
import secrets
import socket
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from admin_api.problems import Problem
from broker.clock import SystemClock
from broker.settings import Settings
from broker.status import secret
from broker.status.proof import proof
from broker.status.secret import SecretUnusable
from broker.status.unix_socket import NAME, OF_COMPACTOR, short_path

TIMEOUT_S: Final = 6.0
ANSWER_BYTES_MAX: Final = 16 << 20


class _UnixConnection(http.client.HTTPConnection):
    """HTTP to the socket in a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__("broker", timeout=TIMEOUT_S)
        self._directory, self._name = directory, name

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with short_path(self._directory, self._name) as path:
            self.sock.connect(path)


class Internal:
    """The endpoint of one part: in a data directory, or at an ``address``, where each
    question proves that we have the secret in ``file``."""

    def __init__(
        self,
        data_dir: Path,
        name: str = NAME,
        part: str = "broker",
        *,
        address: str | None = None,
        file: Path | None = None,
    ) -> None:
        self._directory, self._name, self._part = data_dir / "run", name, part
        self._address, self._file = address, file or self._directory / secret.FILE

    @classmethod
    def of_broker(cls, settings: Settings) -> Self:
        """The broker's, as the settings say."""
        own = settings.internal
        return cls(settings.data_dir, address=own.broker, file=own.secret)

    @classmethod
    def of_compactor(cls, settings: Settings) -> Self:
        """The compactor's."""
        own = settings.internal
        return cls(
            settings.data_dir,
            OF_COMPACTOR,
            "compactor",
            address=own.compactor,
            file=own.secret,
        )

    async def rows(self, question: str) -> list[dict[str, Any]]:
        """All rows of an answer. Raises Problem 50303 where nobody gives one."""
        _, body = await asyncio.to_thread(self._ask, "GET", f"/{question}")
        try:
            return [dict(json.loads(line)) for line in body.splitlines()]
        except (ValueError, TypeError):
            raise Problem(
                50303, f"The {self._part}'s internal endpoint answers nonsense."
            ) from None

    async def change_level(self, logger: str, level: str) -> bool:
        """Whether there is such a logger; it says this and above from now on."""
        path = f"/loggers/{quote(logger, safe='')}?level={level}"
        status, _ = await asyncio.to_thread(self._ask, "PUT", path)
        return status == 204

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, headers=self._credentials(method, path))
            answer = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException, SecretUnusable) as error:
            raise Problem(
                50303, f"The {self._part}'s internal endpoint does not answer: {error}."
            ) from None
        finally:
            connection.close()
        if answer.status >= 500 or answer.status == 401:
            raise Problem(
                50303, f"The {self._part} cannot say it now: {answer.reason}."
            )
        return answer.status, body

    def _connection(self) -> http.client.HTTPConnection:
        if self._address is None:
            return _UnixConnection(self._directory, self._name)
        host, _, port = self._address.rpartition(":")
        return http.client.HTTPConnection(
            host.strip("[]"), int(port), timeout=TIMEOUT_S
        )

    def _credentials(self, method: str, path: str) -> dict[str, str]:
        if self._address is None:
            return {}
        own, now_ms = secret.read(self._file), SystemClock().now_ms()
        shown = proof(own, method, path, now_ms, secrets.token_hex(16))
        return {"Authorization": shown}
