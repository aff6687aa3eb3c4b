"""A client of a metastore: asks, and takes the answer apart."""

import base64
import json
import re
import socket
import struct
from collections.abc import Mapping
from typing import Any

from admin_api.metastore import thrift
from admin_api.metastore.thrift import STRING, Call, Calls, field, record, text
from tests.support.patience import IDLE_S

_ANSWERS = {1: "asks", 2: "gives", 3: "refuses"}


def decode_call(received: bytes | bytearray) -> Call | None:
    """The first call in what was received; None if it is not there as a whole.

    Raises NotThrift.
    """
    calls = Calls()
    calls.feed(received)
    return calls.next()


def asked(name: str, *arguments: str | bytes, number: int = 1) -> bytes:
    """A call whose arguments are texts, or a struct or list that is encoded already."""
    fields = [
        field(STRING, n, text(one)) if isinstance(one, str) else one
        for n, one in enumerate(arguments, 1)
    ]
    head = struct.pack(">I", 0x80010001) + text(name) + thrift.integer(number)
    return head + record(*fields)


def taken_apart(answer: bytes) -> tuple[str, Mapping[int, Any]]:
    """Whether it gives or refuses, and the fields; the whole answer is one message."""
    kind = answer[3]
    found = decode_call(b"\x80\x01\x00\x01" + answer[4:])
    assert found is not None
    assert found.size == len(answer)
    return _ANSWERS[kind], found.arguments


def rows_of(query: str) -> Any:
    """The rows that the text of the view of all tables holds."""
    match = re.search(r"unbase64\('([^']*)'\)", query)
    assert match is not None
    return json.loads(base64.b64decode(match[1]))


class MetastoreClient:
    """A connection; asks one question after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), IDLE_S)

    def ask(self, name: str, *arguments: str | bytes) -> tuple[str, Mapping[int, Any]]:
        self.socket.sendall(asked(name, *arguments))
        return taken_apart(self._answer())

    def _answer(self) -> bytes:
        received = b""
        while True:
            more = self.socket.recv(65_536)
            assert more, "it hung up"
            received += more
            if decode_call(b"\x80\x01\x00\x01" + received[4:]) is not None:
                return received

    def hung_up(self) -> bool:
        """Whether the other side ends the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()
