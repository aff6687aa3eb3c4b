"""A connection that ends before its client has sent all: it is ended slowly.

The problem: the plane stops, and a client still sends records. Whoever closes a socket
in which unread bytes are, or to which more come, resets the connection: TCP throws away
what was on its way, and those are the last reports, which say what became of records.
The idea: only the sending half is closed, so that the client reads to the end of the
answer; what it sends is read and dropped until it closes, for so long and no longer.
Under TLS there are no halves: the answer says itself where it ends. The price: who
neither stops sending nor reads in that time loses the rest all the same.

Source: RFC 9112, section 9.6, "Tear-down".
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

LINGER_S: Final = 2.0
"""With what a stop gives to records that are under way it is less than the time after
which a stop waits for no connection any more."""


class Lingering:
    """A transport whose ``close`` waits for who still sends, if ``is_sending`` says
    that somebody does."""

    def __init__(
        self, transport: asyncio.Transport, is_sending: Callable[[], bool]
    ) -> None:
        self._transport, self._is_sending = transport, is_sending
        self._until: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def is_lingering(self) -> bool:
        """Whether all that comes is dropped."""
        return self._until is not None

    def close(self) -> None:
        """End it, now or once the client has heard the end."""
        if self.is_lingering:
            return
        if not self._is_sending() or self._transport.is_closing():
            self._transport.close()
            return
        loop = asyncio.get_running_loop()
        self._until = loop.call_later(LINGER_S, self._transport.close)
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client has reset it meanwhile
                self._transport.write_eof()
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        """Whether nothing is to be sent any more."""
        return self.is_lingering or self._transport.is_closing()

    def forget(self) -> None:
        """It is gone."""
        if self._until is not None:
            self._until.cancel()
