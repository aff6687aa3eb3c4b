"""A connection that speaks the protocol itself, for what librdkafka has no calls for.

A request goes out in the highest version that both sides know, and its answer is
waited for: a command asks a few times and ends.
"""

import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Self

from broker.cli.client import TIMEOUT_S, address_of
from broker.cli.failures import UserError
from broker.protocol.api_keys import ApiKey
from broker.protocol.codec import request_encoder, response_decoder
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.frames import decode_response_head, encode_request_head
from broker.protocol.messages.api_versions import ApiVersionsRequest

ANSWER_BYTES_MAX = 100 << 20
AGAIN_S = 0.1
TIMES_MAX = int(TIMEOUT_S / AGAIN_S)
VERSION_MAX = 2**15 - 1
_NAME = "lakelog"
_LENGTH = struct.Struct(">i")


class AnswerTooLong(Exception):
    """An answer begins that is longer than what was asked for; it is not read, and so
    the connection is of no use any more."""


class Wire:
    """A connection; blocks. Raises UserError where there is no broker behind it."""

    def __init__(self, bootstrap: str, connected: socket.socket) -> None:
        self._bootstrap = bootstrap
        self._socket = connected
        self._served: dict[int, tuple[int, int]] = {}

    @classmethod
    def open(cls, bootstrap: str) -> Self:
        """A connection to the first address of ``bootstrap`` where somebody answers.

        Raises:
            BadUsage: ``bootstrap`` is no list of addresses.
            UserError: nobody answers there.
        """
        for address in [address_of(one) for one in bootstrap.split(",")]:
            try:
                connected = socket.create_connection(address, timeout=TIMEOUT_S)
            except OSError:
                continue
            wire = cls(bootstrap, connected)
            try:
                wire._learn()
            except BaseException:
                connected.close()
                raise
            return wire
        raise UserError(f"no broker answers at {bootstrap}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(
        self,
        request: Any,
        at_most: int = VERSION_MAX,
        longest: int = ANSWER_BYTES_MAX,
    ) -> Any:
        """The response to a request, in the highest version that both know.

        Raises:
            AnswerTooLong: it has more bytes than ``longest``.
        """
        key: ApiKey = request.API_KEY
        first, last = self._served.get(key, (0, -1))
        version = min(last, key.versions[-1], at_most)
        if version < max(first, key.versions[0]):
            raise UserError(
                f"the broker at {self._bootstrap} does not serve {key.name}"
            )
        return self._ask(request, version, longest)

    def ask_until(self, request: Any, is_final: Callable[[Any], bool]) -> Any:
        """The response, once it is no longer one after which to ask again."""
        for _ in range(TIMES_MAX):
            answer = self.ask(request)
            if is_final(answer):
                break
            time.sleep(AGAIN_S)
        return answer

    def _learn(self) -> None:
        """Which versions it serves."""
        answer = self._ask(ApiVersionsRequest(), 0)
        self._served = {
            one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
        }

    def _ask(self, request: Any, version: int, longest: int = ANSWER_BYTES_MAX) -> Any:
        key = int(request.API_KEY)
        head = encode_request_head(key, version, 0, _NAME)
        body = b"".join(map(bytes, request_encoder(key, version)(request)))
        try:
            self._socket.sendall(_LENGTH.pack(len(head) + len(body)) + head + body)
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if not 0 < length <= ANSWER_BYTES_MAX:
                raise ProtocolError(f"an answer of {length} bytes")
            if length > longest:
                raise AnswerTooLong
            frame = memoryview(self._exactly(length))
            _, position = decode_response_head(frame, key, version)
            return response_decoder(key, version)(frame, position)
        except (ConnectionError, ProtocolError) as error:
            text = f"what answers at {self._bootstrap} is no broker: {error}"
            raise UserError(text) from error

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ConnectionError("it closed the connection")
            data += part
        return bytes(data)


def failure_of(code: int, what: str) -> str:
    """A Kafka error as a sentence about what was asked for."""
    return f"{what}: {error_name(code)}"


def error_name(code: int) -> str:
    """What a Kafka error is called."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
