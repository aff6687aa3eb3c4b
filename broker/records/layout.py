"""Where each field of a batch's header lies: the one table of it.

The problem: batches are read with `struct`, by compiled loops that know only positions,
and by the write-ahead log, and each of them counting the bytes for itself is how one of
them counts wrongly. The idea: the fields in their order; all else is derived. Compiled
code takes the positions as plain integers, and has them as constants.

Source: Kafka's ``DefaultRecordBatch``; names as in its ``RecordBatch``.
"""

import struct
from typing import Final

FIELDS: Final = {
    "base_offset": "q",
    "batch_length": "i",
    "partition_leader_epoch": "i",
    "magic": "b",
    "crc": "I",
    "attributes": "h",
    "last_offset_delta": "i",
    "base_timestamp": "q",
    "max_timestamp": "q",
    "producer_id": "q",
    "producer_epoch": "h",
    "base_sequence": "i",
    "record_count": "i",
}
"""Field -> its form in `struct`; big-endian, without padding."""


def _form(first: str, last: str) -> struct.Struct:
    names = list(FIELDS)
    forms = list(FIELDS.values())
    return struct.Struct(
        ">" + "".join(forms[names.index(first) : names.index(last) + 1])
    )


def _at(name: str) -> int:
    before = list(FIELDS)[: list(FIELDS).index(name)]
    return struct.calcsize(">" + "".join(FIELDS[field] for field in before))


HEADER: Final = _form("base_offset", "record_count")
"""All of it."""
PLACED: Final = _form("base_offset", "crc")
"""What stands before the checked part."""
TIMED: Final = _form("base_offset", "max_timestamp")
"""What indexing needs."""
CHECKED: Final = _form("attributes", "record_count")
"""The checked part of the header; the records, which follow, are checked as well."""

HEADER_BYTES: Final = HEADER.size
BASE_OFFSET_AT: Final = _at("base_offset")
LENGTH_AT: Final = _at("batch_length")
LEADER_EPOCH_AT: Final = _at("partition_leader_epoch")
LOG_OVERHEAD_BYTES: Final = LEADER_EPOCH_AT
"""``batch_length`` counts what follows it; this is what it leaves out."""
MAGIC_AT: Final = _at("magic")
CRC_AT: Final = _at("crc")
ATTRIBUTES_AT: Final = _at("attributes")
CHECKED_AT: Final = ATTRIBUTES_AT
"""The checksum covers everything from here on."""
LAST_OFFSET_DELTA_AT: Final = _at("last_offset_delta")
BASE_TIMESTAMP_AT: Final = _at("base_timestamp")
MAX_TIMESTAMP_AT: Final = _at("max_timestamp")
PRODUCER_ID_AT: Final = _at("producer_id")
PRODUCER_EPOCH_AT: Final = _at("producer_epoch")
RECORD_COUNT_AT: Final = _at("record_count")

MAGIC: Final = 2
CODEC_BITS: Final = 0x07
TIMESTAMP_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
