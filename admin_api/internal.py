"""What a part says on its internal endpoint: a Unix socket, or an address by setting.

A question has `TIMEOUT_S` as a whole, however its answer comes, and holds no thread. A
part of another machine has no such socket in our data directory; at its address we
prove to have the secret that both have, and believe only an answer that proves the
same. Strangers crowd there, too: whom they push out asks again.

Only where nobody listens does a part not run (`Absent`). Who was asked to change
something and did not answer may do it later: a process that was stopped reads its
socket when it goes on.
"""

import asyncio
import json
import secrets
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import h11

from admin_api.internal_http import Answer, PartConnection, Room
from admin_api.internal_names import Names
from admin_api.problems import Problem
from broker.settings import Settings
from broker.status import secret
from broker.status.proof import (
    SEAL,
    Exchange,
    challenge_of,
    is_of_other_version,
    is_same,
)
from broker.status.secret import SecretUnusable
from broker.status.unix_socket import NAME, OF_COMPACTOR, short_path

TIMEOUT_S: Final = 6.0
TRIES: Final = 3
PAUSE_S: Final = 0.05
LATE: Final = "The change may still take effect."


class Untrue(Exception):
    """Who answers does not prove to be the part; the message says how."""


class Refused(Untrue):
    """And was not asked, or did not take the question."""


class OtherVersion(ValueError):
    """A part answers what we do not understand."""


class Unchanged(Problem):
    """A part was not asked, or refused the question: nothing changed there."""


class Absent(Unchanged):
    """Nobody listens there: the part does not run."""


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
        self._room, self._names = Room(), Names()

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

    async def rows(
        self, question: str, needs: Iterable[str] = ()
    ) -> list[dict[str, Any]]:
        """All rows of an answer, each with what is ``needs``; they may have more.

        Raises Problem 50303 where nobody gives one, `Absent` where nobody listens.
        """
        answer = await self._ask("GET", f"/{question}")
        if answer.status != 200:
            raise self._other_version()
        try:
            return await asyncio.to_thread(_rows, answer.body, frozenset(needs))
        except OtherVersion:
            raise self._other_version() from None
        except (ValueError, TypeError):
            raise Problem(
                50303, f"The {self._part}'s internal endpoint answers nonsense."
            ) from None

    async def change_level(self, logger: str, level: str) -> bool:
        """Whether there is such a logger; it says this and above from now on.

        Raises Problem 50303, which says so if it may do that later.
        """
        path = f"/loggers/{quote(logger, safe='')}?level={level}"
        try:
            answer = await self._ask("PUT", path)
        except Unchanged:
            raise
        except Problem as problem:
            raise Problem(50303, f"{problem.message} {LATE}") from None
        if answer.status not in (200, 404):
            raise self._other_version()
        return answer.status == 200

    async def _ask(self, method: str, path: str) -> Answer:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._answer(method, path)
        except TimeoutError:
            raise self._silent("timed out") from None
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise self._silent(error, Absent) from None
        except OtherVersion:
            raise self._other_version() from None
        except (SecretUnusable, Refused) as error:
            raise self._silent(error, Unchanged) from None
        except (OSError, Untrue) as error:
            raise self._silent(error) from None
        except h11.ProtocolError as error:
            raise Problem(
                50303, f"The {self._part}'s internal answer was not whole: {error}."
            ) from None
        if answer.status >= 500:
            raise Problem(
                50303, f"The {self._part} cannot say it now: its loop does not answer."
            )
        return answer

    def _silent(self, why: object, kind: type[Problem] = Problem) -> Problem:
        return kind(
            50303, f"The {self._part}'s internal endpoint does not answer: {why}."
        )

    def _other_version(self) -> Unchanged:
        return Unchanged(
            50303,
            f"The {self._part} speaks another version of the internal exchange: "
            "start both anew, from one version.",
        )

    async def _answer(self, method: str, path: str) -> Answer:
        if self._address is None:
            return await self._once(method, path)
        for _ in range(TRIES - 1):
            try:
                return await self._once(method, path)
            except (ConnectionResetError, BrokenPipeError):
                await asyncio.sleep(PAUSE_S)  # strangers had our place
        return await self._once(method, path)

    async def _once(self, method: str, path: str) -> Answer:
        connection = PartConnection(*await self._connected(), self._room)
        try:
            if self._address is None:
                return await connection.ask(method, path)
            return await self._proved(connection, method, path)
        finally:
            connection.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._address is None:
            with short_path(self._directory, self._name) as path:
                return await asyncio.open_unix_connection(path)
        host, _, port = self._address.rpartition(":")
        return await self._names.connected(host.strip("[]"), int(port))

    async def _proved(
        self, connection: PartConnection, method: str, path: str
    ) -> Answer:
        """The answer of who has the secret. Raises Untrue if it is not known to be."""
        own = await asyncio.to_thread(secret.read, self._file)
        first = await connection.ask(method, path)
        header = first.headers.get(b"www-authenticate", b"").decode("latin-1")
        challenge = challenge_of(header)
        if is_of_other_version(header):
            raise OtherVersion
        if first.status != 401 or challenge is None:
            raise Refused("who listens there asks for no proof")
        number = secrets.token_hex(16)
        exchange = Exchange(self._part, challenge, number, method, path)
        answer = await connection.ask(method, path, exchange.authorization(own))
        if answer.status == 401:
            raise Refused("it has another secret, or is another part")
        sealed = answer.trailers.get(SEAL.lower().encode(), b"").decode("latin-1")
        digest = sha256(answer.body).hexdigest()
        if not is_same(sealed, exchange.seal(own, answer.status, digest)):
            raise Untrue("who listens there does not prove to have the secret")
        return answer


def _rows(body: bytes | bytearray, needs: frozenset[str]) -> list[dict[str, Any]]:
    found = [dict(json.loads(line)) for line in body.splitlines()]
    if not all(needs <= row.keys() for row in found):
        raise OtherVersion
    return found
