"""What a part says of itself to whoever started it: a line, and a word to systemd.

A service of ``Type=notify`` is started when it says so, not when its process is there:
units that come after it find a broker that takes connections. The word is a datagram to
the socket that ``NOTIFY_SOCKET`` names (sd_notify(3)): a path, or an abstract name that
begins with ``@``. Children do not inherit the variable: one word is for all of `up`.
"""

import os
import socket
import sys
from functools import lru_cache
from typing import Final, TextIO

import structlog

from broker.runtime.process.line_output import LineOutput

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
REPORTED_VARIABLE: Final = "LAKELOG_REPORTED"
"""Of children of `up`, which has reported already what is to be reported once."""

log = structlog.get_logger("lakelog.up")


def say(line: str) -> None:
    """One line to standard output, at once, or when its reader takes it: nobody waits.
    Where that does not take it, as a file on a full disk or the pipe to a reader that
    has gone, it is logged: it ends no part."""
    output = _output_of(sys.stdout)
    if output is None:
        sys.stdout.write(f"{line}\n")
    else:
        output.write(_encoded(f"{line}\n", sys.stdout.encoding))


@lru_cache(maxsize=1)
def _output_of(stream: TextIO) -> LineOutput | None:
    return LineOutput.of(stream, _report_lost, _say_no_more)


def _encoded(text: str, encoding: str) -> bytes:
    """A path has bytes that are no letters, or letters that the encoding does not know:
    the ones stay as they are, the others are said by their numbers."""
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace")


def _report_lost(count: int) -> None:
    log.error("lines of the output were lost", count=count)


def _say_no_more(rest: bytes, error: OSError) -> None:
    """All that would be said is not heard either, nor what others left in a buffer."""
    line = rest.decode(errors="replace").rstrip()
    log.warning("nobody hears", line=line, why=error.strerror)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    _output_of.cache_clear()


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
            sending.sendto(state.encode(errors="replace"), address)
    except OSError as error:
        log.warning("systemd cannot be notified", why=str(error))
