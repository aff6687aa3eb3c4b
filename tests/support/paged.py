"""Pages of a column chunk made by hand: sound ones, and what nobody writes."""

import struct
import zlib

from lakehouse.files.page_kernels import DATA_PAGE, DICTIONARY_PAGE, PLAIN, RLE


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _integer(value: int) -> bytes:
    """Of a field that follows the one before."""
    return b"\x15" + _varint(2 * value if value >= 0 else -2 * value - 1)


def page(
    body: bytes,
    values: int,
    encoding: int = PLAIN,
    *,
    is_dictionary: bool = False,
    stored: int | None = None,
    size: int | None = None,
    crc: int | None = None,
    levels: int = RLE,
) -> bytes:
    """A page that is not compressed, header and body."""
    kind = DICTIONARY_PAGE if is_dictionary else DATA_PAGE
    sizes = size if size is not None else len(body), stored or len(body)
    checked = zlib.crc32(body) if crc is None else crc
    head = b"".join(map(_integer, (kind, *sizes)))
    head += _integer(checked - (1 << 32) if checked >= 1 << 31 else checked)
    inner = _integer(values) + _integer(encoding)
    if not is_dictionary:
        inner += _integer(levels) + _integer(RLE)
    field = b"\x3c" if is_dictionary else b"\x1c"
    return head + field + inner + b"\x00\x00" + body


def plain(values: list[bytes]) -> bytes:
    """Byte arrays as a page has them."""
    return b"".join(struct.pack("<I", len(one)) + one for one in values)


def levels(count: int, level: int = 1) -> bytes:
    """One run."""
    run = _varint(count << 1) + bytes([level])
    return struct.pack("<I", len(run)) + run
