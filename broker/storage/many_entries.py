"""Many entries at once: which verify for sure, and what the headers of batches say.

The problem. A start without a checkpoint verifies each entry of each segment and asks
each batch who wrote it: 13 us of Python for each, a quarter of a minute for a thousand
segments of a thousand batches. Who follows the active segment walks through ten
thousand a second, and who compacts them reads each once more.

The idea. Headers stand at known places. They are copied into one array, and each
condition is a comparison of columns; only the checksums are computed one by one, by the
library. What passes all of them is an entry by the rules of `read_entry`; of what does
not, nothing is said here: it is asked again by itself, so that there is one place which
says what is wrong.

The price. 109 bytes for each of ``ENTRIES_AT_ONCE``, and the conditions stand in two
places; a test holds them against each other.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from broker.records.batch import BatchHeader
from broker.records.layout import CHECKED_AT, FIELDS, HEADER_BYTES, LOG_OVERHEAD_BYTES
from broker.records.layout import MAGIC as BATCH_MAGIC
from broker.storage.columns import ROW_TYPE, Ints, Rows
from broker.storage.entry import ENTRY_HEADER_BYTES, HEAD, MAGIC

ENTRIES_AT_ONCE: Final = 8192

Bools = npt.NDArray[np.bool_]
Headers = npt.NDArray[np.void]

_ENTRY_TYPE: Final = np.dtype(
    [
        ("magic", "<u4"),
        ("generation", "<u8"),
        ("synced_below", "<u4"),
        ("topic", "<u4"),
        ("partition", "<i4"),
        ("base", "<i8"),
        ("epoch", "<i4"),
        ("length", "<u4"),
        ("crc", "<u4"),
        ("checksum", "<u4"),
    ]
)
_HEADER_TYPE: Final = np.dtype([(name, ">" + form) for name, form in FIELDS.items()])
_CHAIN: Final = struct.Struct(f"<IQ{_ENTRY_TYPE.fields['length'][1] - 12}xI")  # type: ignore[index]
"""Of an entry's header: its magic, its generation, and how long its batch is."""
_HEAD_BYTES: Final = HEAD.size
_SEED_BYTES: Final = 4
assert BatchHeader._fields == tuple(FIELDS)
assert _ENTRY_TYPE.itemsize == ENTRY_HEADER_BYTES
assert _HEADER_TYPE.itemsize == HEADER_BYTES


class _Heads(NamedTuple):
    """Headers of entries and of their batches, copied: as bytes, a row each, and by
    field."""

    bytes: npt.NDArray[np.uint8]
    entry: Headers
    batch: Headers


def pieces(count: int) -> Iterator[slice]:
    """So many, in runs of ``ENTRIES_AT_ONCE``."""
    for first in range(0, count, ENTRIES_AT_ONCE):
        yield slice(first, min(first + ENTRIES_AT_ONCE, count))


def whole(view: memoryview, positions: Ints, generation: int, limit: int) -> Bools:
    """Of which of these batches, by position in the file, the entry verifies for sure.

    ``view`` is the file up to ``limit`` at least. False only means that `read_entry`
    is to be asked.
    """
    good = (positions >= ENTRY_HEADER_BYTES) & (positions + HEADER_BYTES <= limit)
    for which in pieces(len(positions)):
        at = np.flatnonzero(good[which]) + which.start
        if len(at):
            heads = _heads_at(view, positions[at])
            good[at] = _are_whole(view, positions[at], heads, generation, limit)
    return good


def run_of_entries(
    view: memoryview, start: int, generation: int, limit: int
) -> tuple[Rows, int]:
    """Entries from ``start`` on that follow each other and verify for sure, at most
    ``ENTRIES_AT_ONCE``: their rows, as in a footer, and how many were looked at.

    Where fewer verify than were looked at, or none is left, ask `read_entry`.
    """
    positions = _chained(view, start, generation, limit)
    if not len(positions):  # a file that was cut off has not even a header
        return np.empty(0, ROW_TYPE), 0
    heads = _heads_at(view, positions)
    good = _are_whole(view, positions, heads, generation, limit)
    count = len(good) if good.all() else int(good.argmin())
    return _rows_of(heads, positions)[:count], len(good)


def _chained(view: memoryview, start: int, generation: int, limit: int) -> Ints:
    """Where batches begin, if the headers of their entries are true: each entry where
    the one before it ends."""
    found: list[int] = []
    header_of, position = _CHAIN.unpack_from, start
    last = limit - HEADER_BYTES - ENTRY_HEADER_BYTES
    for _ in range(ENTRIES_AT_ONCE):
        if position > last:
            break
        magic, its, length = header_of(view, position)
        if magic != MAGIC or its != generation:
            break
        found.append(position)
        position += length + ENTRY_HEADER_BYTES
    return np.array(found, np.int64) + ENTRY_HEADER_BYTES


def _rows_of(heads: _Heads, positions: Ints) -> Rows:
    rows = np.empty(len(positions), ROW_TYPE)
    for name in ("topic", "partition", "base", "length"):
        rows[name] = heads.entry[name]
    rows["last_delta"] = heads.batch["last_offset_delta"]
    rows["max_timestamp"] = heads.batch["max_timestamp"]
    rows["position"] = positions
    return rows


def planned(
    view: memoryview, positions: Ints, lengths: Ints, bases: Ints, generation: int
) -> Headers | None:
    """The headers of batches that were seen before: where they lie in ``view``, how
    long they are and their first offsets. None unless each of them is what it was, in
    an entry of the generation, and its checksum is right.
    """
    last = positions + np.maximum(lengths, HEADER_BYTES)
    if (positions < ENTRY_HEADER_BYTES).any() or (last > len(view)).any():
        return None
    _, entry, batch = _heads_at(view, positions)
    good: Bools = (
        (entry["magic"] == MAGIC)
        & (entry["generation"] == generation)
        & (batch["base_offset"] == bases)
        & (batch["batch_length"] == lengths - LOG_OVERHEAD_BYTES)
    )
    if not good.all() or (_sums(view, positions, lengths) != batch["crc"]).any():
        return None
    return batch


def headers_at(view: memoryview, positions: Ints) -> Headers:
    """The header of each of these batches, with the fields of `BatchHeader`."""
    return _copied(view, positions, HEADER_BYTES).view(_HEADER_TYPE)[:, 0]


def as_headers(headers: Headers) -> Iterator[BatchHeader]:
    """The same, one by one."""
    return map(BatchHeader._make, headers.tolist())


def _heads_at(view: memoryview, positions: Ints) -> _Heads:
    """Of batches at these positions, of which there is one at least."""
    place = positions - ENTRY_HEADER_BYTES
    found = _copied(view, place, ENTRY_HEADER_BYTES + HEADER_BYTES)
    entry = _viewed(found[:, :ENTRY_HEADER_BYTES], _ENTRY_TYPE)
    return _Heads(found, entry, _viewed(found[:, ENTRY_HEADER_BYTES:], _HEADER_TYPE))


def _are_whole(
    view: memoryview, positions: Ints, heads: _Heads, generation: int, limit: int
) -> Bools:
    found, entry, batch = heads
    length = entry["length"].astype(np.int64)
    good: Bools = (
        (entry["magic"] == MAGIC)
        & (entry["generation"] == generation)
        & (length >= HEADER_BYTES)
        & (positions + length <= limit)
        & (batch["base_offset"] == entry["base"])
        & (batch["batch_length"] == length - LOG_OVERHEAD_BYTES)
        & (batch["partition_leader_epoch"] == entry["epoch"])
        & (batch["magic"] == BATCH_MAGIC)
        & (batch["crc"] == entry["crc"])
    )
    place = positions - ENTRY_HEADER_BYTES
    good &= _head_sums(found, place) == entry["checksum"]
    at = np.flatnonzero(good)
    good[at] = _sums(view, positions[at], length[at]) == entry["crc"][at]
    return good


def _sums(view: memoryview, positions: Ints, lengths: Ints) -> npt.NDArray[np.uint32]:
    """What the checksums of these batches are to be."""
    starts, ends = positions + CHECKED_AT, positions + lengths
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([crc32c(view[start:end]) for start, end in spans], np.uint32)


def _head_sums(found: npt.NDArray[np.uint8], place: Ints) -> npt.NDArray[np.uint32]:
    """The checksum of each head, seeded with its place: that of all zeros, and what
    each byte of head and seed makes of it."""
    table, zeros = _table()
    seeds = place.astype("<u4").view(np.uint8).reshape(-1, _SEED_BYTES)
    sums = np.full(len(found), zeros, np.uint32)
    for number, column in enumerate(np.ascontiguousarray(found[:, :_HEAD_BYTES].T)):
        sums ^= table[number].take(column)
    for number, column in enumerate(seeds.T):
        sums ^= table[number].take(column)
    return sums


@cache
def _table() -> tuple[npt.NDArray[np.uint32], int]:
    """What each byte in each place of a head does to its checksum (44 x 256), and the
    checksum of zeros: one more bit changes the same bits whatever the others are."""
    zeros, numbers = crc32c(bytes(_HEAD_BYTES)), np.arange(256)
    table = np.zeros((_HEAD_BYTES, len(numbers)), np.uint32)
    for place in range(_HEAD_BYTES):
        for bit in range(8):
            head = bytearray(_HEAD_BYTES)
            head[place] = 1 << bit
            has_it = numbers >> bit & 1 == 1
            table[place, has_it] ^= np.uint32(crc32c(head) ^ zeros)
    return table, zeros


def _copied(view: memoryview, places: Ints, size: int) -> npt.NDArray[np.uint8]:
    """``size`` bytes from each of these places; nothing of ``view`` is held."""
    every = np.lib.stride_tricks.sliding_window_view(np.frombuffer(view, "u1"), size)
    return every[places]


def _viewed(found: npt.NDArray[np.uint8], form: "np.dtype[np.void]") -> Headers:
    return np.ascontiguousarray(found).view(form)[:, 0]
