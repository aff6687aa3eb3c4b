"""Where a part answers the admin plane, and how it knows that it is the plane.

A Unix socket in the data directory is the default: the file's mode says who may
connect. An address is for a plane that cannot use such a socket (over a network file
system, or in another virtual machine): there each request proves that who sends it has
the secret (`broker.status.proof`, `broker.status.secret`), also on loopback, which
other users of a machine reach as well. What is answered can be read on its way, so such
an address belongs into a network of the parts' own.
"""

import contextlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from broker.clock import Clock, SystemClock
from broker.settings import InternalSettings
from broker.status import secret
from broker.status.proof import Proofs
from broker.status.unix_socket import NAME, OF_COMPACTOR, short_path

BACKLOG = 8


class Place(Protocol):
    """A place to be asked at."""

    @property
    def is_open(self) -> bool:
        """Whether strangers can connect."""

    def listen(self) -> socket.socket:
        """A socket that listens there. Raises OSError, SecretUnusable."""

    def may(self, authorization: str, method: str, path: str) -> bool:
        """Whether who sends this header with a request may ask that."""

    def leave(self) -> None:
        """Take away what ``listen`` left for others to find."""


@dataclass(frozen=True, slots=True)
class UnixPlace:
    """A socket in a directory, which its owner alone may use."""

    directory: Path
    name: str = NAME
    is_open: bool = False

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

    def may(self, authorization: str, method: str, path: str) -> bool:
        del authorization, method, path
        return True

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            (self.directory / self.name).unlink()


@dataclass(slots=True)
class TcpPlace:
    """An address; whoever asks there proves to have the secret."""

    address: str
    directory: Path
    """Where the secret is made, unless there is a ``file``."""
    file: Path | None = None
    is_open: bool = True
    clock: Clock = field(default_factory=SystemClock, compare=False)
    _proofs: Proofs | None = None

    def listen(self) -> socket.socket:
        path = self.file or secret.made(self.directory)
        self._proofs = Proofs(secret.read(path), self.clock.now_ms())
        host, _, port = self.address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family, backlog=BACKLOG)

    def may(self, authorization: str, method: str, path: str) -> bool:
        proofs, now_ms = self._proofs, self.clock.now_ms()
        return proofs is not None and proofs.take(authorization, method, path, now_ms)

    def leave(self) -> None:
        """Nothing: who has the secret may need it again."""


def place_of_broker(directory: Path, settings: InternalSettings) -> Place:
    """Where the broker answers; ``directory`` is ``DATA/run``."""
    if settings.broker is None:
        return UnixPlace(directory)
    return TcpPlace(settings.broker, directory, settings.secret)


def place_of_compactor(directory: Path, settings: InternalSettings) -> Place:
    """The same of the compactor."""
    if settings.compactor is None:
        return UnixPlace(directory, OF_COMPACTOR)
    return TcpPlace(settings.compactor, directory, settings.secret)
