"""What a consumer subscribed to, read out of the metadata of its assignor.

Kafka's coordinator treats member metadata as opaque bytes, with this one exception: for
the protocol type "consumer" it reads the topics (``ConsumerProtocolSubscription``), so
that offsets of a topic somebody reads are neither deleted nor expired. Clients write
these bytes, so anything may be in them: what does not parse is *unknown*, and unknown
is never taken for "subscribed to nothing".
"""

import struct

CONSUMER = "consumer"

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topic names of one subscription, or None if these bytes are not one.

    Layout, all versions: int16 version, int32 count, then strings of int16 length;
    what follows (user data, owned partitions, rack) does not matter here.
    """
    try:
        (version,) = _SHORT.unpack_from(metadata, 0)
        (count,) = _INT.unpack_from(metadata, 2)
        if version < 0 or count < 0 or count > len(metadata) // 2:
            return None
        topics, position = [], 6
        for _ in range(count):
            (length,) = _SHORT.unpack_from(metadata, position)
            position += 2
            if length < 0 or position + length > len(metadata):
                return None
            topics.append(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
