"""Where a part answers the admin plane, and how it knows that it is the plane.

A Unix socket in the data directory is the default: the file's mode says who may
connect. An address is for a plane that cannot use such a socket (over a network file
system, or in another virtual machine): there each request proves that who sends it has
the secret, and each answer that the part has it (`broker.status.proof`,
`broker.status.secret`), also on loopback, which other users of a machine reach as well.
What is answered can be read on its way, so such an address belongs into a network of
the parts' own.
"""

import contextlib
import os
import secrets
import socket
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from broker.runtime.process.internal_http import Asked, HttpConnection, Seal
from broker.settings import InternalSettings
from broker.status import secret
from broker.status.proof import challenge_header, proved
from broker.status.unix_socket import NAME, OF_COMPACTOR, short_path

BACKLOG: Final = 1024
"""So many wait while others are taken; the kernel takes less if it is told to."""

Admitted = tuple[Asked, Seal]


class Place(Protocol):
    """A place to be asked at."""

    def listen(self) -> socket.socket:
        """A socket that listens there. Raises OSError, SecretUnusable."""

    async def admit(self, connection: HttpConnection) -> Admitted | None:
        """What is asked, by who may, and what proves the answer; None if nobody may.

        Raises OSError, h11.ProtocolError.
        """

    def leave(self) -> None:
        """Take away what ``listen`` left for others to find."""


@dataclass(frozen=True, slots=True)
class UnixPlace:
    """A socket in a directory, which its owner alone may use."""

    directory: Path
    name: str = NAME

    def listen(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_path(self.directory, self.name) as path:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                bound.bind(path)
                os.chmod(path, 0o600)
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
        return bound

    async def admit(self, connection: HttpConnection) -> Admitted | None:
        return await connection.request(), lambda _status, _digest: ""

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            (self.directory / self.name).unlink()


@dataclass(slots=True)
class TcpPlace:
    """An address of a part; who asks there proves to have the secret."""

    part: str
    address: str
    directory: Path
    """Where the secret is made, unless there is a ``file``."""
    file: Path | None = None
    _secret: str = field(default="", repr=False, compare=False)

    def listen(self) -> socket.socket:
        path = self.file or secret.made(self.directory)
        self._secret = secret.read(path)
        host, _, port = self.address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
        # an answer is written in pieces, and none of them waits for the one before
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    async def admit(self, connection: HttpConnection) -> Admitted | None:
        challenge = secrets.token_hex(16)
        await connection.request()  # nobody can prove anything by his first one
        await connection.challenge(challenge_header(challenge))
        asked = await connection.request()
        own, facts = self._secret, (self.part, challenge, asked.method, asked.path)
        exchange = proved(asked.authorization, own, *facts) if own else None
        if exchange is None:
            await connection.refuse()
            return None
        return asked, partial(exchange.seal, own)

    def leave(self) -> None:
        """Nothing: who has the secret may need it again."""


def place_of_broker(directory: Path, settings: InternalSettings) -> Place:
    """Where the broker answers; ``directory`` is ``DATA/run``."""
    if settings.broker is None:
        return UnixPlace(directory)
    return TcpPlace("broker", settings.broker, directory, settings.secret)


def place_of_compactor(directory: Path, settings: InternalSettings) -> Place:
    """The same of the compactor."""
    if settings.compactor is None:
        return UnixPlace(directory, OF_COMPACTOR)
    return TcpPlace("compactor", settings.compactor, directory, settings.secret)
