"""Connections to a host by its name, looked up on a thread of its own.

The system's look-up blocks, for many seconds where no server of names answers. On the
threads that all of the plane shares, a few askers would hold every one of them.
"""

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

UNUSABLE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH)
"""What an address comes to that this machine has no way to, such as one of IPv6."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Names:
    """Looks names up, one after another."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="names")

    async def connected(self, host: str, port: int) -> Streams:
        """A connection to the first of its addresses that takes one.

        Raises OSError: the name is unknown, or what the addresses came to;
        ConnectionRefusedError only if nobody listens at any that can be used here.
        """
        failures = []
        for address in await self._addresses(host, port):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as failure:
                failures.append(failure)
        raise max(failures, key=_weight)

    async def _addresses(self, host: str, port: int) -> list[str]:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, look_up)
        except UnicodeError as error:
            raise OSError(f"{host} is no name of a host") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _weight(failure: OSError) -> int:
    """Of several failures the heaviest one is told."""
    if failure.errno in UNUSABLE:
        return 0
    return 1 if isinstance(failure, ConnectionRefusedError) else 2
