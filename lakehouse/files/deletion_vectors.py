"""Which rows of a data file its owner deleted without writing the file anew.

The problem: where ``delta.enableDeletionVectors`` is on, a DELETE, UPDATE or MERGE
leaves a file as it is and names the rows that are gone by their numbers, in a bitmap;
who reads the file must leave them out. The idea: a vector is named by what the ``add``
says of it, and never changes, so its rows are read once and kept, sorted, within a
bound in bytes.

What is not as it should be (a checksum, a count, a place outside of the table) makes
the file unreadable: nobody gets a row that its owner deleted. Any thread may ask.

Source: the Delta transaction log protocol, "Deletion Vectors" and "Deletion Vector File
Storage Format"; ZeroMQ RFC 32 (Z85).
"""

import os
import struct
import threading
import zlib
from collections import OrderedDict
from typing import Final
from urllib.parse import unquote
from uuid import UUID

import numpy as np

from lakehouse.errors import FileVanished, TableUnreadable
from lakehouse.files.roaring import Numbers, numbers_of
from lakehouse.location import Names, path_inside
from lakehouse.log.actions import Vector
from lakehouse.regular import open_file

KEPT_BYTES: Final = 16 << 20
INLINE, RELATIVE, ABSOLUTE = "i", "u", "p"
_UUID_LETTERS: Final = 20
Z85_LETTERS: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyz"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_VALUE: Final = {letter: value for value, letter in enumerate(Z85_LETTERS)}
NOTHING: Final[Numbers] = np.empty(0, np.int64)


class DeletedRows:
    """Rows by vector; the least recently used are dropped."""

    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[Vector, Numbers] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, vector: Vector | None) -> Numbers:
        """The numbers of the deleted rows in their file, rising; ``vector`` as
        `placed`. Raises FileVanished and TableUnreadable."""
        if vector is None:
            return NOTHING
        with self._lock:
            found = self._kept.get(vector)
            if found is not None:
                self._kept.move_to_end(vector)
                return found
        found = _read(vector)
        with self._lock:
            self._kept[vector] = found
            while len(self._kept) > 1 and self.size_bytes > self._bytes_max:
                self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        """Drop all that is kept."""
        with self._lock:
            self._kept.clear()

    @property
    def size_bytes(self) -> int:
        """Bytes of what is kept."""
        return sum(rows.nbytes for rows in self._kept.values())


def placed(root: str, vector: Vector | None) -> Vector | None:
    """The vector, and if it is a file's, with the file's absolute path. Raises
    TableUnreadable if that does not lie in the table at ``root``."""
    if vector is None or vector.storage == INLINE:
        return vector
    named = _path(root, vector)
    path = path_inside(root, named)
    if path is None:
        raise TableUnreadable(f"the deletion vector {named} does not lie in {root}")
    return vector._replace(storage=ABSOLUTE, place=path)


def _path(root: str, vector: Vector) -> str:
    if vector.storage == ABSOLUTE:
        below = Names(root).by_place(vector.place)
        return below or "/" + unquote(vector.place).removeprefix("file:").lstrip("/")
    if vector.storage != RELATIVE:
        raise TableUnreadable(f"deletion vectors are stored as {vector.storage!r}")
    prefix, letters = vector.place[:-_UUID_LETTERS], vector.place[-_UUID_LETTERS:]
    try:
        name = f"deletion_vector_{UUID(bytes=z85_decoded(letters))}.bin"
    except ValueError as error:
        raise TableUnreadable(f"no deletion vector is {vector.place!r}") from error
    return os.path.join(prefix, name)


def z85_decoded(text: str) -> bytes:
    """Bytes of text in Z85. Raises ValueError."""
    if len(text) % 5 or not set(text) <= _VALUE.keys():
        raise ValueError(f"{text!r} is no Z85")
    words = []
    for at in range(0, len(text), 5):
        word = 0
        for letter in text[at : at + 5]:
            word = word * 85 + _VALUE[letter]
        words.append(word)
    try:
        return struct.pack(f">{len(words)}I", *words)
    except struct.error as error:
        raise ValueError(f"{text!r} is no Z85") from error


def _read(vector: Vector) -> Numbers:
    what = "a deletion vector in the log" if vector.storage == INLINE else vector.place
    try:
        is_inline = vector.storage == INLINE
        if vector.size <= 0:
            raise ValueError("it has no size")
        data = z85_decoded(vector.place) if is_inline else _stored(vector)
        return numbers_of(data[: vector.size], vector.cardinality)
    except FileNotFoundError as error:
        raise FileVanished(vector.place) from error
    except (ValueError, OSError) as error:
        raise TableUnreadable(f"{what}: {error}") from error


def _stored(vector: Vector) -> bytes:
    """The bytes of a vector in a file, proven by their checksum. Raises OSError and
    ValueError."""
    with open_file(vector.place) as file:
        file.seek(vector.offset or 0)
        framed = file.read(vector.size + 8)
    if len(framed) != vector.size + 8:
        raise ValueError("a deletion vector is cut off")
    data = framed[4:-4]
    size, checksum = framed[:4], framed[-4:]
    if size != struct.pack(">I", vector.size):
        raise ValueError("a deletion vector has not the size that the log says")
    if checksum != struct.pack(">I", zlib.crc32(data)):
        raise ValueError("the checksum of a deletion vector does not fit")
    return data
