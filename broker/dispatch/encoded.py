"""A response that its handler has encoded itself.

The problem: an answer about ten thousand topics takes longer to encode than the loop
may be held, and most of it is the same each time. The idea: such a handler works in
turns, keeps what it encoded, and hands over bytes. The price: it must know where in its
response the parts stand.
"""

from typing import NamedTuple

from broker.protocol.buffers import Buffer


class Encoded(NamedTuple):
    """The body of a response, to be sent as it is."""

    parts: list[Buffer]
