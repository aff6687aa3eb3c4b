"""Headers: what stands before a request and before its response.

A frame is what follows the four bytes of its length. Its header tells which message at
which version the rest is; the header has versions of its own, which follow from those.
Two of Kafka's irregularities live here: the client id is never compact, although the
header around it is; and the response to ApiVersions keeps the oldest header at every
version, since the client cannot know yet what we understand (KIP-511).
"""

import struct
from typing import NamedTuple

from broker.protocol.api_keys import FIRST_FLEXIBLE, VERSIONS, ApiKey
from broker.protocol.errors import ProtocolError
from broker.protocol.wire import read_uvarint, skip_tags

_REQUEST = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_TAGGED_CORRELATION = struct.Struct(">ix")

# Response header v1 begins where a version is flexible; for ApiVersions never.
_RESPONSE_V1_FROM = {
    k: v for k, v in FIRST_FLEXIBLE.items() if k != ApiKey.API_VERSIONS
}
_NEVER = 1 << 15


class RequestHeader(NamedTuple):
    """The head of a request; the message begins at `body_position` of the frame."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_header(frame: memoryview) -> RequestHeader:
    """Read the header of a request.

    The version may be one that nobody defined: ApiVersions answers even then. Whether
    it is served is for the dispatcher to tell.

    Raises:
        ProtocolError: an API key without a definition, or a header that is cut short.
    """
    try:
        key, version, correlation_id, size = _REQUEST.unpack_from(frame)
        if key not in VERSIONS:
            raise ProtocolError(f"unknown API key {key}")
        position = 10 + size if size > 0 else 10
        if size < -1 or position > len(frame):
            raise ProtocolError(f"the client id has length {size}")
        client_id = None if size < 0 else str(frame[10:position], "utf-8", "replace")
        if version >= FIRST_FLEXIBLE.get(key, _NEVER):
            position = _skip_section(frame, position)
    except (struct.error, IndexError):
        raise ProtocolError("the header ends too early") from None
    return RequestHeader(key, version, correlation_id, client_id, position)


def encode_response_head(key: int, version: int, correlation_id: int) -> bytes:
    """The header of a response."""
    if version >= _RESPONSE_V1_FROM.get(key, _NEVER):
        return _TAGGED_CORRELATION.pack(correlation_id)
    return _CORRELATION.pack(correlation_id)


def encode_request_head(
    key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header of a request, for tools that speak to a broker."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\x00" if version >= FIRST_FLEXIBLE.get(key, _NEVER) else b""
    return _REQUEST.pack(key, version, correlation_id, size) + name + tags


def decode_response_head(frame: memoryview, key: int, version: int) -> tuple[int, int]:
    """The correlation id of a response, and the position of the message.

    Raises:
        ProtocolError: the header is cut short.
    """
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if version < _RESPONSE_V1_FROM.get(key, _NEVER):
            return correlation_id, 4
        return correlation_id, _skip_section(frame, 4)
    except (struct.error, IndexError):
        raise ProtocolError("the header ends too early") from None


def _skip_section(frame: memoryview, position: int) -> int:
    """Pass over a section of tagged fields: no header has any that are known."""
    count = frame[position]
    position += 1
    if count == 0:
        return position
    if count > 127:
        count, position = read_uvarint(frame, position, count)
    return skip_tags(frame, position, len(frame), count)
