"""The fixed places of a segment file: who it is now, and where its footer lies.

A segment file is 64 MiB by default and is used many times. Its first 4 KiB hold two
records, each in a sector of its own, so that writing one can never tear the other:

    0      identity   sequence (= generation of its entries), file size, time of birth
    512    seal       sequence, end of data, footer's place, length and CRC, time
    4096   entries, one behind the other
    ...    footer     one row per entry, written when the segment is sealed

A new identity takes the whole block. Should the power take a part of that, a seal of
the earlier generation may stay; it names another sequence, and so counts for nothing.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

SECTOR_BYTES: Final = 512
HEADER_BLOCK_BYTES: Final = 4096
SEAL_AT: Final = SECTOR_BYTES

_IDENTITY: Final = struct.Struct("<8sQQq")
_SEAL: Final = struct.Struct("<8sQQQQIq")
_CHECKSUM: Final = struct.Struct("<I")
_IDENTITY_MAGIC: Final = b"LAKESEG1"
_SEAL_MAGIC: Final = b"LAKESEA1"


class Identity(NamedTuple):
    """Sequence 0 is nobody's: a file of zeros has no identity."""

    sequence: int
    file_bytes: int
    created_ms: int


class Seal(NamedTuple):
    """``data_end``: end of the last entry; the footer may start right there."""

    sequence: int
    data_end: int
    footer_position: int
    footer_bytes: int
    footer_crc: int
    sealed_at_ms: int


def pack_identity(identity: Identity) -> bytes:
    return _sector(_IDENTITY.pack(_IDENTITY_MAGIC, *identity))


def read_identity(block: bytes | memoryview) -> Identity | None:
    """None if the sector does not verify."""
    fields = _checked(_IDENTITY, _IDENTITY_MAGIC, block, 0)
    return None if fields is None else Identity(*fields)


def pack_seal(seal: Seal) -> bytes:
    return _sector(_SEAL.pack(_SEAL_MAGIC, *seal))


def read_seal(block: bytes | memoryview, sequence: int) -> Seal | None:
    """None if the sector does not verify or is that of another generation."""
    fields = _checked(_SEAL, _SEAL_MAGIC, block, SEAL_AT)
    if fields is None:
        return None
    seal = Seal(*fields)
    return seal if seal.sequence == sequence else None


def _sector(record: bytes) -> bytes:
    return (record + _CHECKSUM.pack(crc32c(record))).ljust(SECTOR_BYTES, b"\0")


def _checked(
    form: struct.Struct, magic: bytes, block: bytes | memoryview, position: int
) -> tuple[int, ...] | None:
    end = position + form.size
    if len(block) < end + _CHECKSUM.size:
        return None
    (checksum,) = _CHECKSUM.unpack_from(block, end)
    if crc32c(block[position:end]) != checksum:
        return None
    fields = form.unpack_from(block, position)
    return fields[1:] if fields[0] == magic else None
