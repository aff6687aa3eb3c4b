"""One fetch on a bare socket, timed: how soon the first old bytes come.

A client library adds its own connecting, metadata and first polls, which are no figure
of the broker.
"""

import socket
import struct
import time
from typing import Any

VERSION = 11
BYTES_MAX = 1 << 20


class Fetcher:
    """A connection that fetches, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def fetch_ms(self, topic: str, partition: int, offset: int) -> tuple[float, int]:
        """(milliseconds from request to whole answer, bytes of its records)."""
        frame = _frame(topic, partition, offset)
        begun = time.monotonic()
        self._socket.sendall(frame)
        answer = self._receive()
        took_ms = (time.monotonic() - begun) * 1e3
        [found] = _decode(answer).responses[0].partitions
        assert found.error_code == 0, f"error {found.error_code}"
        return took_ms, len(found.records or b"")

    def _receive(self) -> memoryview:
        (length,) = struct.unpack(">i", self._exactly(4))
        return memoryview(self._exactly(length))

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while len(view):
            view = view[self._socket.recv_into(view) :]
        return data


def _frame(topic: str, partition: int, offset: int) -> bytes:
    from broker.protocol.codec import request_encoder
    from broker.protocol.frames import encode_request_head
    from broker.protocol.messages.fetch import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
    )

    wanted = FetchPartition(
        partition, fetch_offset=offset, partition_max_bytes=BYTES_MAX
    )
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=BYTES_MAX,
        topics=[FetchTopic(topic, partitions=[wanted])],
    )  # fmt: skip
    key = int(request.API_KEY)
    head = encode_request_head(key, VERSION, 1, "bench")
    body = b"".join(map(bytes, request_encoder(key, VERSION)(request)))
    return struct.pack(">i", len(head) + len(body)) + head + body


def _decode(frame: memoryview) -> Any:
    from broker.protocol.api_keys import ApiKey
    from broker.protocol.codec import response_decoder
    from broker.protocol.frames import decode_response_head

    _, position = decode_response_head(frame, ApiKey.FETCH, VERSION)
    return response_decoder(ApiKey.FETCH, VERSION)(frame, position)
