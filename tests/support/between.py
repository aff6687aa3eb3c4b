"""Who stands between clients and a broker, and may keep its answers to himself."""

import socket
import threading
import time
from contextlib import suppress


class Between:
    """Clients come to ``address``; the broker, told of it as its own, listens at
    ``broker`` (HOST:PORT).

    While ``hears`` is not set what the broker answers stays here; with ``bytes_a_s``
    each connection brings no more of it than that.
    """

    def __init__(self, broker: str) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._port = int(broker.rpartition(":")[2])
        self.hears = threading.Event()
        self.hears.set()
        self.bytes_a_s = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hear_once(self) -> None:
        """What came of each connection first, and was kept, is let go."""
        self.hears.set()
        self.hears.clear()

    def cut(self) -> None:
        """All connections are gone; what was kept is lost."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()
        self.hears.set()

    def close(self) -> None:
        """Nobody comes any more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    client.close()
                    continue
                self._open += [client, broker]
                for ends in ((client, broker), (broker, client)):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError), source:
            is_answer = source.getpeername()[1] == self._port
            while data := source.recv(1 << 16):
                if is_answer:
                    self.hears.wait()
                if is_answer and self.bytes_a_s:
                    time.sleep(len(data) / self.bytes_a_s)
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)
