"""Addresses of this machine at which nobody answers, or only who they are kept for."""

import os
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nobody() -> Iterator[str]:
    """HOST:PORT that refuses connections: a socket that does not listen keeps the port,
    so that no other process is given it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def kept_for(owner: object) -> str:
    """HOST:PORT that no other process is given while ``owner`` is there, whether a
    server listens at it just now or not.

    A free port that was only looked for, or that a server had before it was killed, may
    be somebody else's by the time it is listened at. Here a socket that does not listen
    keeps it. Beside that one Linux lets listen who takes an address that was in use
    before (SO_REUSEADDR), as all our servers do.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{held.getsockname()[1]}"
    weakref.finalize(owner, os.close, held.detach())
    return address
