"""An address of this machine at which nobody answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nobody() -> Iterator[str]:
    """HOST:PORT that refuses connections: a socket that does not listen keeps the port,
    so that no other process is given it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"
