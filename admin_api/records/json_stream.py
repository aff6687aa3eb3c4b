"""Concatenated JSON objects, cut out of a stream as its bytes come.

Each byte is looked at once, whatever pieces it comes in: only quotes, backslashes and
brackets matter to where an object ends. What is inside is the parser's.
"""

import re
from collections.abc import Iterator

from admin_api.problems import Problem

OBJECT_BYTES_MAX = 32 * 1024 * 1024

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_SPACE = b" \t\r\n"


class JsonStream:
    """Gathers bytes until an object is whole."""

    def __init__(self, object_bytes_max: int = OBJECT_BYTES_MAX) -> None:
        self._object_bytes_max = object_bytes_max
        self._buffer = bytearray()
        self._seen = 0
        self._depth = 0
        self._in_text = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The objects that are whole now.

        Raises Problem 400 for what is no object, 413 for one that is too long.
        """
        self._buffer += chunk
        while (end := self._end()) is not None:
            yield bytes(self._buffer[:end])
            del self._buffer[:end]
            self._seen = 0
        if len(self._buffer) > self._object_bytes_max:
            raise Problem(
                413, f"A record is longer than {self._object_bytes_max} bytes."
            )

    @property
    def unfinished(self) -> int:
        """Bytes that are held of what is not whole yet."""
        return len(self._buffer)

    def close(self) -> None:
        """The stream ended. Raises Problem 400 where an object is unfinished."""
        if self._buffer.strip(_SPACE):
            raise Problem(400, "The last JSON object is not finished.")

    def _end(self) -> int | None:
        """Where the first object ends, None while it goes on."""
        if self._depth == 0 and not self._starts():
            return None
        while self._seen < len(self._buffer):
            if self._in_text:
                self._skip_text()
                if self._in_text:
                    return None
            elif self._skip_to_mark() and self._depth == 0:
                return self._seen
        return None

    def _starts(self) -> bool:
        """Whether an object begins here; what is between two objects is dropped."""
        stripped = self._buffer.lstrip(_SPACE)
        if not stripped:
            self._buffer.clear()
            return False
        if stripped[:1] != b"{":
            raise Problem(400, "JSON objects are expected, one after the other.")
        if len(stripped) < len(self._buffer):
            self._buffer = stripped
        return True

    def _skip_to_mark(self) -> bool:
        """Go past the next quote or bracket; True if it was a closing bracket."""
        mark = _OUTSIDE.search(self._buffer, self._seen)
        if mark is None:
            self._seen = len(self._buffer)
            return False
        self._seen = mark.end()
        if mark[0] == b'"':
            self._in_text = True
            return False
        opens = mark[0] in b"{["
        self._depth += 1 if opens else -1
        return not opens

    def _skip_text(self) -> None:
        """Go to behind the quote that ends a text, or as far as bytes are there."""
        while True:
            mark = _INSIDE.search(self._buffer, self._seen)
            if mark is None:
                self._seen = len(self._buffer)
                return
            if mark[0] == b'"':
                self._seen, self._in_text = mark.end(), False
                return
            if mark.end() == len(self._buffer):
                self._seen = mark.start()  # what it escapes is still to come
                return
            self._seen = mark.end() + 1
