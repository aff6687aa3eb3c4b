r"""The format of ``server.properties``, as Java reads it.

Comments begin with ``#`` or ``!``; ``=``, ``:`` or blanks end a name; an odd number of
backslashes at the end of a line joins the next one, without its leading blanks;
``\t``, ``\n``, ``\r``, ``\f``, ``\uXXXX`` and a backslash before any other character
are escapes. The last of several equal names wins. Source: the documentation of
``java.util.Properties.load``.
"""

import re
from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t\f"
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_NAME: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENDS: Final = re.compile(r"\r\n|\n|\r")


def decode(content: bytes) -> str:
    """The text: UTF-8 if it is, else Latin-1, which is what Java takes it for."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def parse(text: str) -> dict[str, str]:
    """Each name with its value, in the order of the file.

    Raises:
        ValueError: an escape is cut off; the message is one sentence.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None, "it matches the empty text"
        found[_unescaped(name[1])] = _unescaped(line[name.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and empty ones, joined where they are continued."""
    joined: str | None = None
    for line in _ENDS.split(text):
        rest = line.lstrip(_BLANKS)
        if joined is None and (not rest or rest[0] in "#!"):
            continue
        whole = (joined or "") + rest
        slashes = len(rest) - len(rest.rstrip("\\"))
        if slashes % 2:
            joined = whole[:-1]
        else:
            joined = None
            yield whole
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(_letter, text)


def _letter(escape: re.Match[str]) -> str:
    what = escape[1]
    if what == "u":
        raise ValueError(r"\u stands without four hexadecimal digits")
    if len(what) > 1:
        return chr(int(what[1:], 16))
    return _LETTERS.get(what, what)
