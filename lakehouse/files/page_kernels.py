"""Compiled loops over the pages of a Parquet file: headers, levels, numbers, bytes.

The problem: Arrow copies each value into an array of its own, and takes half a
millisecond for a row group however small it is; whoever makes record batches needs to
know only where the bytes of a value lie. The idea: of the kinds of pages that our own
files have, these loops say just that. Whatever is odd (another encoding, a field that
nobody writes, a length that does not fit, a byte that is left over) ends the loop with
`ODD`, and Arrow reads the row group and has the last word.

The price: a second reading of the format. It is stricter than Arrow wherever a row has
a value, so it is never the one to say what a damaged page means.

Sources: ``parquet.thrift``, ``Encodings.md`` of the Parquet format; Thrift's compact
protocol.
"""

from typing import Any, Final

import numpy as np
from numba import njit, types

ODD: Final = -1

TYPE: Final = 0
BODY: Final = 1
STORED: Final = 2
BYTES: Final = 3
CRC: Final = 4
HAS_CRC: Final = 5
VALUES: Final = 6
ENCODING: Final = 7
LEVELS: Final = 8
PAGE_FIELDS: Final = 9
"""Of a page: where its body begins, its bytes there and decompressed, and so on."""

DATA_PAGE: Final = 0
DICTIONARY_PAGE: Final = 2
PLAIN: Final = 0
PLAIN_DICTIONARY: Final = 2
RLE: Final = 3
DELTA_BINARY_PACKED: Final = 5
RLE_DICTIONARY: Final = 8

_DATA_HEADER: Final = 5
_DICTIONARY_HEADER: Final = 7
_STATISTICS: Final = 5
_BINARY: Final = 8
_STRUCT: Final = 12
_WIDTH_MAX: Final = 56
"""A number of more bits is left to Arrow: what was read ahead would not fit."""
_BLOCK_VALUES_MAX: Final = 1 << 20

_I64: Final = types.int64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_INTS: Final = types.Array(_I64, 1, "C")


def _compiled(*signature: Any) -> Any:
    return njit(*signature, nogil=True, cache=True)


@_compiled()
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """(Value, where the next begins or ODD)."""
    value, shift = np.uint64(0), 0
    while at < end and shift < 64:
        byte = data[at]
        value |= np.uint64(byte & 0x7F) << np.uint64(shift)
        at += 1
        if byte < 0x80:
            return np.int64(value), at
        shift += 7
    return np.int64(0), ODD


@_compiled()
def _signed(data, at, end):  # type: ignore[no-untyped-def]
    """The same of a number that has a sign."""
    raw, at = _varint(data, at, end)
    return ((raw >> 1) & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(raw & 1), at


@_compiled()
def _field(data, at, end, number):  # type: ignore[no-untyped-def]
    """(Kind, number, where its value begins) of the field behind field ``number``; of
    kind 0 where the structure ends."""
    if at >= end:
        return 0, 0, ODD
    head = np.int64(data[at])
    step = head >> 4
    if head and not step:  # a number of its own, which nobody needs for so few fields
        return 0, 0, ODD
    return head & 15, number + step, at + 1


@_compiled()
def _behind(data, at, end, kind):  # type: ignore[no-untyped-def]
    """Where a value ends that has no others in it."""
    if kind == 1 or kind == 2:  # a truth value, which is its kind
        return at
    if kind == 3:
        return at + 1 if at < end else ODD
    if kind == _BINARY:
        length, at = _varint(data, at, end)
        return at + length if at != ODD and 0 <= length <= end - at else ODD
    if 4 <= kind <= 6:
        return _varint(data, at, end)[1]
    return ODD


@_compiled()
def _behind_struct(data, at, end):  # type: ignore[no-untyped-def]
    """Where a structure of such values ends."""
    number = 0
    while True:
        kind, number, at = _field(data, at, end, number)
        if at == ODD or kind == 0:
            return at
        at = _behind(data, at, end, kind)
        if at == ODD:
            return at


@_compiled()
def _inner_header(data, at, end, page, is_data):  # type: ignore[no-untyped-def]
    """What the header of a data page or of a dictionary says of its values."""
    number = 0
    while True:
        kind, number, at = _field(data, at, end, number)
        if at == ODD or kind == 0:
            return at
        if kind == _STRUCT and is_data and number == _STATISTICS:
            at = _behind_struct(data, at, end)
        elif kind == 5 and number <= (4 if is_data else 2):
            value, at = _signed(data, at, end)
            if number == 1:
                page[VALUES] = value
            elif number == 2:
                page[ENCODING] = value
            elif number == 3:
                page[LEVELS] = value
        elif not is_data:
            at = _behind(data, at, end, kind)
        else:
            return ODD
        if at == ODD:
            return at


@_compiled()
def _header(data, at, end, page):  # type: ignore[no-untyped-def]
    """The header of one page; where its body begins."""
    page[:] = ODD
    page[HAS_CRC] = number = 0
    while True:
        kind, number, at = _field(data, at, end, number)
        if at == ODD or kind == 0:
            page[BODY] = at
            return at
        if kind == _STRUCT and number in (_DATA_HEADER, _DICTIONARY_HEADER):
            at = _inner_header(data, at, end, page, number == _DATA_HEADER)
        elif kind == 5 and number <= 4:
            value, at = _signed(data, at, end)
            if number == 1:
                page[TYPE] = value
            elif number == 2:
                page[BYTES] = value
            elif number == 3:
                page[STORED] = value
            else:
                page[CRC], page[HAS_CRC] = value & 0xFFFFFFFF, 1
        else:
            return ODD
        if at == ODD:
            return at


@_compiled(_I64(_BYTES, _I64, _I64, _INTS))
def find_page(data, at, end, page):  # type: ignore[no-untyped-def]
    """Fill ``page``, (PAGE_FIELDS,), with the header in ``data[at:end]``; where its
    body begins, or ODD."""
    at = _header(data, at, end, page)
    return ODD if page[STORED] < 0 or page[BYTES] < 0 else at


@_compiled()
def _run(data, at, end, width, count, out):  # type: ignore[no-untyped-def]
    """``count`` times the number that stands there; where the next run begins."""
    size = (width + 7) // 8
    if end - at < size:
        return ODD
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    if value >> width:
        return ODD
    out[:count] = value
    return at + size


@_compiled()
def _packed(data, at, width, out):  # type: ignore[no-untyped-def]
    """As many numbers of ``width`` bits as ``out`` takes."""
    if not width:
        out[:] = 0
        return
    mask = np.uint64((1 << width) - 1)
    bits, have = np.uint64(0), 0
    for i in range(len(out)):
        while have < width:
            bits |= np.uint64(data[at]) << np.uint64(have)
            at += 1
            have += 8
        out[i] = np.int64(bits & mask)
        bits >>= np.uint64(width)
        have -= width


@_compiled(_I64(_BYTES, _I64, _I64, _I64, _INTS))
def runs(data, at, end, width, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the numbers of ``width`` bits, at most 32, that
    ``data[at:end]`` has in runs and packed: neither more nor fewer. ``end``, or ODD.
    """
    done, total = 0, len(out)
    while done < total:
        head, at = _varint(data, at, end)
        count = head >> 1
        if at == ODD or count <= 0 or count > total:
            return ODD
        if head & 1:
            if end - at < count * width or 8 * count >= total - done + 8:
                return ODD
            take = min(8 * count, total - done)
            _packed(data, at, width, out[done : done + take])
            at += count * width
        else:
            take = count
            if take > total - done:
                return ODD
            at = _run(data, at, end, width, take, out[done:])
        if at == ODD:
            return ODD
        done += take
    return at if at == end else ODD


@_compiled()
def _block(data, at, end, miniblocks, size, before, out):  # type: ignore[no-untyped-def]
    """A block of differences, added up behind ``before``; where the next one begins."""
    least, at = _signed(data, at, end)
    if at == ODD or end - at < miniblocks:
        return ODD
    widths = at
    at += miniblocks
    done, total = 0, len(out)
    for i in range(miniblocks):
        if done == total:
            break
        width = np.int64(data[widths + i])
        if width > _WIDTH_MAX or end - at < width * size // 8:
            return ODD
        take = min(size, total - done)
        part = out[done : done + take]
        _packed(data, at, width, part)
        for j in range(take):
            before += part[j] + least
            part[j] = before
        at += width * size // 8
        done += take
    return at


@_compiled(_I64(_BYTES, _I64, _I64, _INTS))
def deltas(data, at, end, out):  # type: ignore[no-untyped-def]
    """Fill ``out``, one at least, with numbers that are DELTA_BINARY_PACKED; ``end``,
    or ODD."""
    block, at = _varint(data, at, end)
    if at == ODD:
        return ODD
    miniblocks, at = _varint(data, at, end)
    if at == ODD:
        return ODD
    total, at = _varint(data, at, end)
    if at == ODD or total != len(out) or not 0 < block <= _BLOCK_VALUES_MAX:
        return ODD
    if not 0 < miniblocks <= block or block % miniblocks or block // miniblocks % 32:
        return ODD
    out[0], at = _signed(data, at, end)
    done = 1
    while at != ODD and done < total:
        take = min(block, total - done)
        size = block // miniblocks
        part = out[done : done + take]
        at = _block(data, at, end, miniblocks, size, out[done - 1], part)
        done += take
    return at if at == end else ODD


@_compiled(_I64(_BYTES, _I64, _I64, _I64, _INTS, _INTS))
def byte_arrays(data, at, end, address, starts, lengths):  # type: ignore[no-untyped-def]
    """Where each byte array of ``data[at:end]``, PLAIN, lies: as many as ``starts``
    takes, neither more nor fewer. ``end``, or ODD.

    ``address``: of ``data[0]``; ``starts`` are addresses.
    """
    for i in range(len(starts)):
        if end - at < 4:
            return ODD
        length = np.int64(data[at])
        length |= np.int64(data[at + 1]) << 8
        length |= np.int64(data[at + 2]) << 16
        length |= np.int64(data[at + 3]) << 24
        at += 4
        if length > end - at:
            return ODD
        starts[i], lengths[i] = address + at, length
        at += length
    return at if at == end else ODD


@_compiled(_I64(_INTS, _INTS, _INTS, _INTS, _INTS))
def look_up(indices, starts, lengths, out_starts, out_lengths):  # type: ignore[no-untyped-def]
    """The byte arrays of a dictionary that ``indices`` name; how many, or ODD."""
    for i in range(len(indices)):
        index = indices[i]
        if index >= len(starts):
            return ODD
        out_starts[i], out_lengths[i] = starts[index], lengths[index]
    return len(indices)


@_compiled(_I64(_INTS, _INTS, _INTS, _INTS, _INTS))
def spread(levels, starts, lengths, out_starts, out_lengths):  # type: ignore[no-untyped-def]
    """A place for each row, of which some have no value: their length is -1."""
    taken = 0
    for i in range(len(levels)):
        if levels[i]:
            out_starts[i], out_lengths[i] = starts[taken], lengths[taken]
            taken += 1
        else:
            out_starts[i], out_lengths[i] = 0, -1
    return taken


@_compiled(_I64(_INTS, _INTS, _INTS))
def rise(offsets, micros, millis):  # type: ignore[no-untyped-def]
    """1 if each offset is above the one before, else 0; the timestamps in ms."""
    for i in range(len(offsets)):
        if i and offsets[i] <= offsets[i - 1]:
            return 0
        millis[i] = micros[i] // 1000
    return 1
