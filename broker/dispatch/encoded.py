"""Responses that are encoded otherwise: by their handler, or in turns.

The problem: an answer about ten thousand topics takes longer to encode than the loop
may be held, and most of it is the same each time. The idea: such a handler works in
turns, keeps what it encoded, and hands over bytes. The price: it must know where in its
response the parts stand.
"""

from typing import Any, NamedTuple

from broker.protocol.buffers import Buffer


class Encoded(NamedTuple):
    """The body of a response, to be sent as it is."""

    parts: list[Buffer]


class Wide(NamedTuple):
    """A response of very many elements to a request of an API whose answers are small
    otherwise: it is encoded in turns."""

    response: Any
