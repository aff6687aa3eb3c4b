"""Records streamed over HTTP, whose reports are read while it goes on."""

import json
import socket
from contextlib import suppress

from tests.support.patience import IDLE_S


def several(text):
    """The JSON values that are in a text one after the other."""
    return [json.loads(line) for line in text.splitlines() if line]


class Streaming:
    """A chunked request whose reports are read while it goes on."""

    def __init__(self, address, path, length=None, token="", unread_bytes=None):
        """``unread_bytes``: the kernel keeps no more that nobody has read."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        if unread_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread_bytes)
        self._socket.settimeout(IDLE_S)
        self._socket.connect(address)
        self._answer = self._socket.makefile("rb")
        self._reports = []
        how = "Transfer-Encoding: chunked"
        if length is not None:
            how = f"Content-Length: {length}"
        if token:
            how += f"\r\nAuthorization: Bearer {token}"
        head = f"POST {path} HTTP/1.1\r\nHost: plane\r\n{how}\r\n\r\n"
        self._socket.sendall(head.encode())

    def write_raw(self, body):
        self._socket.sendall(body)

    def write(self, piece):
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))

    def end(self):
        self._socket.sendall(b"0\r\n\r\n")

    def status(self):
        line = self._answer.readline()
        while self._answer.readline() != b"\r\n":
            pass
        return int(line.split()[1])

    def report(self):
        """The next report, None at the end of the answer."""
        if not self._reports:
            length = int(self._answer.readline(), 16)
            self._reports = several(self._answer.read(length + 2)[:length])
        return self._reports.pop(0) if self._reports else None

    def rest(self):
        return list(iter(self.report, None))

    def left(self):
        """What comes before the connection ends, however it does."""
        found = b""
        with suppress(ConnectionResetError):
            while some := self._socket.recv(1 << 16):
                found += some
        return found

    def close(self):
        self._answer.close()
        self._socket.close()
