"""What a part says on its internal endpoint, a Unix socket in the data directory.

A part serves one question after another, and the broker none of them on its loop alone;
here each has a thread and a deadline. A broker of another machine has no such socket.
"""

import asyncio
import http.client
import json
import socket
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from admin_api.problems import Problem
from broker.status.unix_socket import NAME, short_path

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
    """The endpoint of one part in one data directory: the broker's, or another's."""

    def __init__(self, data_dir: Path, name: str = NAME, part: str = "broker") -> None:
        self._directory, self._name, self._part = data_dir / "run", name, part

    async def rows(self, question: str) -> list[dict[str, Any]]:
        """All rows of an answer. Raises Problem 50303 where nobody gives one."""
        _, body = await asyncio.to_thread(self._ask, "GET", f"/{question}")
        return [json.loads(line) for line in body.splitlines()]

    async def change_level(self, logger: str, level: str) -> bool:
        """Whether there is such a logger; it says this and above from now on."""
        path = f"/loggers/{quote(logger, safe='')}?level={level}"
        status, _ = await asyncio.to_thread(self._ask, "PUT", path)
        return status == 204

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        connection = _UnixConnection(self._directory, self._name)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise Problem(
                50303, f"The {self._part}'s internal endpoint does not answer: {error}."
            ) from None
        finally:
            connection.close()
        if answer.status >= 500:
            raise Problem(
                50303, f"The {self._part} cannot say it now: {answer.reason}."
            )
        return answer.status, body
