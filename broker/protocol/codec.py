"""Codecs: from a message to buffers and back, for every API and version.

A broker speaks some five hundred layouts, and a handful of them all day. So each is
compiled into a straight-line function when it is first asked for, from the definition
of its API; `decoding` and `encoding` tell what these functions look like. Importing
this module compiles nothing.

A message may have half a million elements, which take a second to read. So there is a
second form of both for large ones, that gives way after some hundred elements.
"""

from collections.abc import Callable, Generator
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any

from broker.protocol.api_keys import VERSIONS, ApiKey
from broker.protocol.buffers import Buffer
from broker.protocol.decoding import decoder_source
from broker.protocol.encoding import encoder_source
from broker.protocol.errors import ProtocolError
from broker.protocol.schema import Definition, Struct, definition, structs

# (frame, position of the message in it) -> message; what follows it is passed over.
Decoder = Callable[[memoryview, int], Any]
# message -> what to write, in order; `records` uncopied, as elements of their own.
Encoder = Callable[[Any], list[Buffer]]
# The same, yielding after each `wire.ELEMENTS_A_TURN` elements of arrays.
DecoderInTurns = Callable[[memoryview, int], Generator[None, None, Any]]
EncoderInTurns = Callable[[Any], Generator[None, None, list[Buffer]]]


def known_versions(key: int) -> range:
    """The versions of an API that have a definition; empty for an unknown key."""
    return VERSIONS.get(key, range(0))


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """What reads a request of an API at a version.

    Raises:
        ProtocolError: here, for an unknown key or version; from the decoder, for
            anything but a whole message.
    """
    api = _definition(key, version)
    decode: Decoder = _decoder(api, api.request, version)
    return decode


@cache
def request_decoder_in_turns(key: int, version: int) -> DecoderInTurns:
    """What reads a large request; see `request_decoder`."""
    api = _definition(key, version)
    decode: DecoderInTurns = _decoder(api, api.request, version, in_turns=True)
    return decode


@cache
def response_decoder(key: int, version: int) -> Decoder:
    """What reads a response; see `request_decoder`."""
    api = _definition(key, version)
    decode: Decoder = _decoder(api, api.response, version)
    return decode


@cache
def request_encoder(key: int, version: int) -> Encoder:
    """What writes a request; see `response_encoder`."""
    api = _definition(key, version)
    encode: Encoder = _encoder(api, api.request, version)
    return encode


@cache
def response_encoder(key: int, version: int) -> Encoder:
    """What writes a response of an API at a version.

    Raises:
        ProtocolError: an unknown key or version.
    """
    api = _definition(key, version)
    encode: Encoder = _encoder(api, api.response, version)
    return encode


@cache
def response_encoder_in_turns(key: int, version: int) -> EncoderInTurns:
    """What writes a large response; see `response_encoder`."""
    api = _definition(key, version)
    encode: EncoderInTurns = _encoder(api, api.response, version, in_turns=True)
    return encode


def has_brief_response(key: int, version: int) -> bool:
    """Whether no response has arrays, so that it is never long.

    Raises:
        ProtocolError: an unknown key or version.
    """
    return _definition(key, version).response.is_brief(version)


def _definition(key: int, version: int) -> Definition:
    if version not in known_versions(key):
        raise ProtocolError(f"no definition of API key {key} version {version}")
    return definition(ApiKey(key).name.lower())


def _decoder(
    api: Definition, message: Struct, version: int, *, in_turns: bool = False
) -> Any:
    flexible = api.flexible(version)
    text, names = decoder_source(message, version, flexible, in_turns=in_turns)
    return _scope(api, message, f"decode v{version}", text, names)["decode"]


def _encoder(
    api: Definition, message: Struct, version: int, *, in_turns: bool = False
) -> Any:
    flexible = api.flexible(version)
    text, names = encoder_source(message, version, flexible, in_turns=in_turns)
    return _scope(api, message, f"encode v{version}", text, names)["encode"]


def _scope(
    api: Definition, message: Struct, what: str, text: str, names: dict[str, object]
) -> dict[str, Any]:
    """What the text defines when it runs; all of it is written from our definitions."""
    module = import_module(f"broker.protocol.messages.{ApiKey(api.key).name.lower()}")
    scope: dict[str, Any] = dict(names)
    scope |= {s.name: getattr(module, s.name) for s in structs([message])}
    code: CodeType = compile(text, f"<{message.name}: {what}>", "exec")
    exec(code, scope)  # noqa: S102
    return scope
