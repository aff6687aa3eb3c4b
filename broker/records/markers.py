"""Markers: the control batches that say in a partition how a transaction ended.

The problem: whether a record counts is decided after it was written, in many partitions
at once, and each consumer has to learn it at the right place. The idea (KIP-98): a
batch of one record that nobody's application sees, behind all records of the
transaction. Its header names the producer; its key says commit or abort, its value
which coordinator said so. Clients drop or deliver what they have of that producer.

Every marker is written here, uncompressed, so each has the same 78 bytes but for a few
fields, and it is read by position. The price: one that Kafka had written with another
version of its key would not be taken.

In version 1 of transactions nothing tells the records of one from those of the next,
should the marker between them be lost. So a marker says where its own begins: as the
coordinator's epoch, which no client looks at, and which is never below -1 otherwise.

Source: Kafka's ``MemoryRecords.withEndTransactionMarker``, ``EndTransactionMarker`` and
``ControlRecordType``.
"""

import struct
from typing import Final, NamedTuple

from broker.ids import ProducerId
from broker.protocol.errors import ErrorCode, KafkaError
from broker.records.batch import CODEC_NONE, Buffer, read_header, seal
from broker.records.layout import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)

# The one record, varints of one byte written out: length, attributes, deltas of time
# and offset, length and key (version, type), length and value (version, coordinator's
# epoch), number of headers. Length and lengths are zigzag: 16, 4 and 6.
_RECORD: Final = struct.Struct(">bbbbb hh b hi b")
_LENGTHS: Final = (0x20, 0, 0, 0, 0x08)
_VALUE_LENGTH: Final = 0x0C
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1
_NO_SEQUENCE: Final = -1
_ATTRIBUTES: Final = CODEC_NONE | TRANSACTIONAL_BIT | CONTROL_BIT

MARKER_BYTES: Final = HEADER_BYTES + _RECORD.size
COORDINATOR_EPOCH_AT: Final = MARKER_BYTES - 5
DECIDES_NOTHING: Final = -2
"""As a coordinator's epoch; below that it is lower by how many offsets before the
marker it decides."""
_EPOCH_MIN: Final = -(1 << 31)


class Marker(NamedTuple):
    """What a marker says beside whose transaction it ends."""

    commit: bool
    coordinator_epoch: int = 0

    def start(self, base: int) -> int | None:
        """The first offset that it decides, standing at ``base``; None: it does not
        say."""
        if self.coordinator_epoch > DECIDES_NOTHING:
            return None
        return base + self.coordinator_epoch - DECIDES_NOTHING

    def starting(self, start: int | None, base: int) -> "Marker":
        """One for ``base`` that says so, if there is room: it need not be so."""
        if start is None:
            return self
        epoch = DECIDES_NOTHING - max(base - start, 0)
        return self if epoch < _EPOCH_MIN else Marker(self.commit, epoch)


def marker_batch(
    producer_id: ProducerId, producer_epoch: int, marker: Marker, now_ms: int
) -> bytearray:
    """The batch of a marker, to be given its place by ``batch.assign``."""
    batch = bytearray(MARKER_BYTES)
    HEADER.pack_into(
        batch, 0, 0, MARKER_BYTES - LOG_OVERHEAD_BYTES, 0, MAGIC, 0, _ATTRIBUTES, 0,
        now_ms, now_ms, producer_id, producer_epoch, _NO_SEQUENCE, 1,
    )  # fmt: skip
    kind = _COMMIT if marker.commit else _ABORT
    _RECORD.pack_into(
        batch, HEADER_BYTES, *_LENGTHS, _VERSION, kind, _VALUE_LENGTH, _VERSION,
        marker.coordinator_epoch, 0,
    )  # fmt: skip
    seal(batch)
    return batch


def read_marker(buffer: Buffer, position: int = 0) -> Marker:
    """What the marker says whose batch starts at ``position``.

    Its checksum is the caller's to check. Raises KafkaError CORRUPT_MESSAGE if it is
    no marker.
    """
    header = read_header(buffer, position)
    record = position + HEADER_BYTES
    end = position + MARKER_BYTES
    if header.attributes != _ATTRIBUTES or header.size != MARKER_BYTES:
        raise _not_a_marker(header.base_offset)
    if len(buffer) < end:
        raise _not_a_marker(header.base_offset)
    *lengths, version, kind, value_length, value_version, epoch, headers = (
        _RECORD.unpack_from(buffer, record)
    )
    fixed = (*lengths, version, value_length, value_version, headers)
    is_marker = fixed == (*_LENGTHS, _VERSION, _VALUE_LENGTH, _VERSION, 0)
    if not is_marker or kind not in (_ABORT, _COMMIT):
        raise _not_a_marker(header.base_offset)
    return Marker(kind == _COMMIT, epoch)


def _not_a_marker(base_offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the control batch at offset {base_offset} is no marker of a transaction",
    )
