"""A batch in another codec: what a topic's ``compression.type`` asks of the broker.

The records stay as they are, byte by byte: they are decompressed and compressed again,
and the header gets the codec's bits, another length and another checksum. A batch that
is in the codec already keeps its bytes, whatever its level, as in Kafka. The price: two
passes over the records, some milliseconds for a megabyte, so this is for a thread.

Source: Kafka's ``LogValidator`` (target compression), KIP-390 (levels).
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.protocol.buffers import Buffer
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    check_produced,
    seal,
)
from broker.records.compression import compress, decompress
from broker.records.layout import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
)
from broker.records.limits import UNCOMPRESSED_BYTES_MAX

CODECS: Final[Mapping[str, int]] = {
    "uncompressed": CODEC_NONE,
    "gzip": CODEC_GZIP,
    "snappy": CODEC_SNAPPY,
    "lz4": CODEC_LZ4,
    "zstd": CODEC_ZSTD,
}
"""Kafka's name of a codec in ``compression.type`` -> its number."""

_CODEC_MASK: Final = 0x07
_NEWEST_VERSION: Final = 1 << 14  # of Produce: whether the client's knows its codec is
# looked at when the batch is appended
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Target(NamedTuple):
    """The codec in which a topic keeps its batches, and at which level (None: the
    codec has none)."""

    codec: int
    level: int | None = None

    def differs_from(self, records: Buffer | None) -> bool:
        """Whether this is the beginning of a batch in another codec."""
        if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != MAGIC:
            return False
        return codec_of(records) != self.codec


def codec_of(records: Buffer) -> int:
    """The codec that a batch of today's format says."""
    return int(records[ATTRIBUTES_AT + 1]) & _CODEC_MASK


class TooLarge(KafkaError):
    """The batch would be larger in the target's codec than its topic takes."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            "in the codec of the topic's compression.type the batch is larger than its "
            "max.message.bytes",
        )


def recompressed(records: Buffer, target: Target, bytes_max: int) -> bytearray:
    """The batch of a producer in the target's codec; ``records`` is not changed.

    Raises TooLarge if it would have more than ``bytes_max`` bytes; KafkaError, as
    ``check_produced`` and ``decompress``: what is no sound batch of ``bytes_max`` at
    most is to be refused as it came.
    """
    header = check_produced(records, bytes_max, _NEWEST_VERSION, in_transaction=True)
    packed = memoryview(records)[HEADER_BYTES:]
    body = _body(header.codec, packed, target, bytes_max - HEADER_BYTES)
    batch = bytearray(HEADER_BYTES + len(body))
    batch[:HEADER_BYTES], batch[HEADER_BYTES:] = records[:HEADER_BYTES], body
    attributes = header.attributes & ~_CODEC_MASK | target.codec
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
    _INT32.pack_into(batch, LENGTH_AT, len(batch) - LOG_OVERHEAD_BYTES)
    seal(batch)
    return batch


def _body(codec: int, packed: Buffer, target: Target, bytes_max: int) -> Buffer:
    """Records in the target's codec, without making what is too large: each copy of
    64 MiB holds the interpreter's lock, and with it the loop."""
    if target.codec != CODEC_NONE:
        plain = decompress(codec, packed, UNCOMPRESSED_BYTES_MAX)
        body = compress(target.codec, plain, target.level)
        if len(body) > bytes_max:
            raise TooLarge
        return body
    try:
        return decompress(codec, packed, min(UNCOMPRESSED_BYTES_MAX, bytes_max))
    except KafkaError as error:
        is_beyond = error.code == ErrorCode.INVALID_RECORD  # the limit
        if is_beyond and bytes_max <= UNCOMPRESSED_BYTES_MAX:
            raise TooLarge from None
        raise
