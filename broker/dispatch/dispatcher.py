"""From a frame to its handler's answer, and from an answer to bytes.

The problem: what to do with a frame depends on its key and version, and looking that
up piece by piece costs more than a small request itself. The idea: all of it is found
once for each (key, version) and kept as a ``Route``: decoder, handler, encoder and the
head of the answer. A session is what a connection adds to that: who the peer is.

``Session.start`` runs a handler up to its return; the caller calls it in the order in
which the frames arrived, and behind a request that is still open only if both are of
``pipelined`` routes. It never awaits.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from broker.dispatch.context import Context, Software
from broker.dispatch.encoded import Encoded, Wide
from broker.dispatch.registry import Registry, Repeat, Served
from broker.dispatch.turns import LARGE_BYTES, Reading, Remains, Steps, at_once
from broker.protocol.api_keys import ApiKey
from broker.protocol.buffers import Buffer
from broker.protocol.codec import (
    EncoderInTurns,
    has_brief_response,
    request_decoder,
    request_decoder_in_turns,
    response_encoder,
    response_encoder_in_turns,
)
from broker.protocol.errors import ErrorCode, ProtocolError
from broker.protocol.frames import decode_header, encode_response_head
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

HEAD = Struct(">hhi")
"""Key, version and correlation id: how each request starts, in every header version."""

_LENGTH_AND_ID = Struct(">ii")
_SMALL = 4096

REPEATS_MAX = 64
"""Of a connection; each takes some 500 bytes."""

PREFIX_LENGTHS_MAX = 8
"""Each is tried with every request: a connection has one or two."""

KEPT_BYTES_MAX = 1 << 10
"""What a request begins with is kept up to this length: a client's name is short, and
tagged fields, which may be as long as a frame, are not its memory's business."""


class Route:
    """How one API is read, answered and written in one version.

    ``is_write``: of an API that is pipelined, though this version may not be. Its
    requests retain what they were received into; its answers are small and many, so
    they are written at a stroke, all others in turns if they are large. ``is_brief``:
    no response of it can be, since it has no arrays.
    """

    __slots__ = (
        "awaits_others", "decode", "encode", "encode_in_turns", "handler",
        "handler_in_turns", "is_brief", "is_write", "key", "pipelined", "repeat",
        "tail", "version",
    )  # fmt: skip

    def __init__(self, served: Served, version: int) -> None:
        self.key = int(served.key)
        self.version = version
        self.is_write = served.pipelined
        self.pipelined = served.pipelined and version >= served.pipelined_since
        self.awaits_others = served.awaits_others
        self.handler: Callable[[Any, Context], Any] = served.handler
        self.handler_in_turns = served.in_turns or served.handler
        self.repeat = served.repeat
        self.is_brief = has_brief_response(self.key, version)
        self.decode = request_decoder(self.key, version)
        self.encode: Callable[[Any], list[Buffer]] | None = None
        self.encode_in_turns: EncoderInTurns | None = None
        if self.is_write or self.is_brief:
            self.encode = response_encoder(self.key, version)
        else:
            self.encode_in_turns = response_encoder_in_turns(self.key, version)
        # What follows the correlation id: empty tagged fields in flexible versions.
        self.tail = bytes(encode_response_head(self.key, version, 0)[4:])

    def read_in_turns(self, frame: memoryview, position: int) -> Steps[Any]:
        """Read a large request; see ``decode``."""
        return request_decoder_in_turns(self.key, self.version)(frame, position)

    def answer(self, correlation_id: int, response: Any) -> tuple[list[Buffer], int]:
        """The bytes of a response with its length in front, and how many they are."""
        if self.encode is not None:
            return self._headed(correlation_id, self.encode(response))
        steps = self.answer_in_turns(correlation_id, response)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: tuple[list[Buffer], int] = end.value
                return answer

    def answer_in_turns(
        self, correlation_id: int, response: Any
    ) -> Steps[tuple[list[Buffer], int]]:
        """Give the same; yields where others may have their turn."""
        if type(response) is Encoded:
            parts = response.parts
        elif self.encode_in_turns is not None:
            steps = self.encode_in_turns(response)
            whole = at_once(steps)
            if whole is None:
                yield
                whole = yield from steps
                Remains(response).forget()  # of one that is whole at once little is
            parts = whole
        elif type(response) is Wide:
            encode = response_encoder_in_turns(self.key, self.version)
            parts = yield from encode(response.response)
        else:
            assert self.encode is not None
            parts = self.encode(response)
        return self._headed(correlation_id, parts)

    def _headed(
        self, correlation_id: int, parts: list[Buffer]
    ) -> tuple[list[Buffer], int]:
        """Put the length and the correlation id before the parts."""
        size = 4 + len(self.tail)
        for part in parts:
            size += len(part)
        head = _LENGTH_AND_ID.pack(size, correlation_id) + self.tail
        if parts and len(parts[0]) <= _SMALL:
            parts[0] = head + parts[0]
        else:
            parts.insert(0, head)
        return parts, size + 4


class Dispatcher:
    """The routes of a listener, each made when it is first asked for."""

    def __init__(self, registry: Registry, broker: Any, listener: str = "") -> None:
        self.registry = registry
        self.broker = broker
        self.listener = listener
        self.listed = registry.listed()
        self.pipelined, self.urgent = registry.pipelined, registry.urgent
        self.brief = registry.brief
        self._routes: dict[tuple[int, int], Route] = {}

    def session(self, peer_host: str) -> "Session":
        """What a new connection starts its requests with."""
        return Session(self, peer_host)

    def route(self, key: int, version: int) -> Route:
        """The route of a request.

        Raises:
            ProtocolError: nobody serves it. Kafka closes the connection then, and
                clients count on it (``InvalidRequestException``).
        """
        route = self._routes.get((key, version))
        if route is None:
            served = self.registry.find(key, version)
            if served is None:
                raise ProtocolError(f"API {key} is not served in version {version}")
            route = self._routes[key, version] = Route(served, version)
        return route


class Known(NamedTuple):
    """What a request shares with the last one of its key and version.

    ``head``: the header's bytes behind the correlation id, up to ``body_position``.
    """

    route: Route
    head: bytes
    body_position: int
    context: Context


class Session:
    """A connection's view of the dispatcher.

    A client says the same things about itself in each header. So the header of a
    request is compared with the last one's, and read only when it differs. An API whose
    requests mostly begin alike, body included, may keep what they have in common: then
    even less is read (`Repeat`).
    """

    __slots__ = (
        "_dispatcher", "_known", "_prefix_ends", "_remembers", "_repeats", "peer_host",
        "software",
    )  # fmt: skip

    def __init__(self, dispatcher: Dispatcher, peer_host: str) -> None:
        self._dispatcher = dispatcher
        self._known: dict[tuple[int, int], Known] = {}
        self._repeats: dict[bytes, tuple[Route, Repeat]] = {}
        self._prefix_ends: tuple[int, ...] = ()
        self._remembers = True
        self.peer_host = peer_host
        self.software = Software()

    @property
    def client_id(self) -> str | None:
        """What the client calls itself, as its requests say; None before the first."""
        known = next(reversed(self._known.values()), None)
        return None if known is None else known.context.client_id

    def start(self, frame: memoryview) -> tuple[Route, int, Any]:
        """Start a request: its route, its correlation id, and what the handler gave.

        That is a response, None (nothing is to be sent), or an awaitable of either; or
        a ``Reading``, where the request is so large that it is read in turns.

        Raises:
            ProtocolError: the frame is no request that is served here.
        """
        key, version, correlation_id = HEAD.unpack_from(frame)
        for end in self._prefix_ends:
            found = self._repeats.get(bytes(frame[HEAD.size : end]))
            if found is not None:
                route, repeat = found
                if route.version == version and route.key == key:
                    result = repeat.start(frame, correlation_id)
                    if result is not None:
                        return route, correlation_id, result
                break
        known = self._known.get((key, version))
        if known is None or frame[HEAD.size : known.body_position] != known.head:
            if key == ApiKey.API_VERSIONS and self._is_newer(version):
                return self._step_down(correlation_id)
            known = self._read_header(frame)
        route = known.route
        if len(frame) <= LARGE_BYTES:
            request = route.decode(frame, known.body_position)
        else:
            steps = route.read_in_turns(frame, known.body_position)
            request = at_once(steps)
            if request is None:
                reading = Reading(steps, route.handler_in_turns, known.context)
                return route, correlation_id, reading
        if self._remembers and route.repeat is not None:
            self._remembers = self._remember(
                route, route.repeat(frame, request, known.context, route.answer)
            )
        return route, correlation_id, route.handler(request, known.context)

    def _remember(self, route: Route, repeat: Repeat | None) -> bool:
        """Start requests that begin like this one by it; whether there may be more. Who
        says too much, or too many different things, is not asked again: that costs a
        little with each request, and mostly came to nothing."""
        if repeat is None:
            return True
        if len(repeat.prefix) > KEPT_BYTES_MAX:
            return False
        end = HEAD.size + len(repeat.prefix)
        if end not in self._prefix_ends:
            if len(self._prefix_ends) == PREFIX_LENGTHS_MAX:
                return False
            self._prefix_ends += (end,)
        self._repeats[repeat.prefix] = route, repeat
        return len(self._repeats) < REPEATS_MAX

    def _is_newer(self, version: int) -> bool:
        return self._dispatcher.registry.find(ApiKey.API_VERSIONS, version) is None

    def _read_header(self, frame: memoryview) -> Known:
        header = decode_header(frame)
        key, version = header.key, header.version
        route = self._dispatcher.route(key, version)
        context = self._context(key, version, header.client_id)
        end = header.body_position
        if end - HEAD.size > KEPT_BYTES_MAX:
            return Known(route, b"", end, context)
        known = Known(route, bytes(frame[HEAD.size : end]), end, context)
        self._known[key, version] = known
        return known

    def _step_down(self, correlation_id: int) -> tuple[Route, int, Any]:
        """Answer an ApiVersions that is newer than we are (KIP-511)."""
        entries = [
            ApiVersion(*entry)
            for entry in self._dispatcher.listed
            if entry.key == ApiKey.API_VERSIONS
        ]
        response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, entries)
        route = self._dispatcher.route(ApiKey.API_VERSIONS, 0)
        return route, correlation_id, response

    def _context(self, key: int, version: int, client_id: str | None) -> Context:
        dispatcher = self._dispatcher
        return Context(
            version=version,
            client_id=client_id,
            key=key,
            peer_host=self.peer_host,
            broker=dispatcher.broker,
            listener=dispatcher.listener,
            software=self.software,
            listed=dispatcher.listed,
        )
