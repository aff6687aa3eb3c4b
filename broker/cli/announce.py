"""What a part says of itself to whoever started it: a line, and a word to systemd.

A service of ``Type=notify`` is started when it says so, not when its process is there:
units that come after it find a broker that takes connections. The word is a datagram to
the socket that ``NOTIFY_SOCKET`` names (sd_notify(3)): a path, or an abstract name that
begins with ``@``. Children do not inherit the variable: one word is for all of `up`.
"""

import os
import socket
import sys
from typing import Final

import structlog
import typer

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
REPORTED_VARIABLE: Final = "LAKELOG_REPORTED"
"""Of children of `up`, which has reported already what is to be reported once."""

log = structlog.get_logger("lakelog.up")


def say(line: str) -> None:
    """One line to standard output, at once. Where that does not take it, as a file on a
    full disk or the pipe to a reader that has gone, it is logged: it ends no part."""
    try:
        typer.echo(line)
    except OSError as error:
        log.warning("nobody hears", line=line, why=error.strerror)
        _say_no_more()


def _say_no_more() -> None:
    """What is left in the buffer would be tried again, and fail, at the very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def announce(line: str) -> None:
    """Say that clients can come, to people and to systemd."""
    say(line)
    notify(f"READY=1\nSTATUS={line}")


def notify(state: str) -> None:
    """Send ``state`` to whoever wants to be notified; nothing if nobody does."""
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.sendto(state.encode(), address)
    except OSError as error:
        log.warning("systemd cannot be notified", why=str(error))
