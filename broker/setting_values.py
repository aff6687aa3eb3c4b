"""The kinds of value that a setting can have, and the error of one that cannot be."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from lakehouse.warehouse_names import NAME

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
"""What clients are told as an INT or a LONG is no larger."""

_UNITS = {"": 1, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"\s*(\d+)\s*(ki|mi|gi|)b?\s*", re.IGNORECASE)
_POLICIES = frozenset({"compact", "delete"})


class SettingsError(Exception):
    """A setting cannot be used; the message is one sentence for its author."""


def _size(value: Any) -> Any:
    """Bytes from ``64Mi``, ``64MiB`` or a plain number."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    return int(match[1]) * _UNITS[match[2].lower()]


def _address(value: Any) -> Any:
    """``HOST:PORT`` with a port that exists."""
    host, colon, port = str(value).rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit()):
        raise ValueError("should be HOST:PORT")
    if int(port) > 65_535:
        raise ValueError("has a port above 65535")
    return value


def _fixed_address(value: Any) -> Any:
    """``HOST:PORT`` that another process can be told."""
    if int(_address(value).rpartition(":")[2]) == 0:
        raise ValueError("should name a port")
    return value


def _policies(value: Any) -> Any:
    """What becomes of old records, each once, without blanks, in the order given."""
    named = [one.strip() for one in str(value).split(",")] if str(value).strip() else []
    if not _POLICIES.issuperset(named):
        raise ValueError("should be delete, compact, both with a comma, or nothing")
    return ",".join(dict.fromkeys(named))


def _retention(value: int) -> int:
    if value == 0:
        raise ValueError("should be -1 (for ever), or 1 or more")
    return value


def _warehouses(value: Any) -> Any:
    """``NAME=PATH`` with commas between them, without blanks around them."""
    named = [one.strip() for one in str(value).split(",")] if str(value).strip() else []
    pairs = [
        (n.strip(), p.strip()) for n, _, p in (one.partition("=") for one in named)
    ]
    for name, path in pairs:
        if not NAME.fullmatch(name):
            raise ValueError("should be NAME=PATH, names of a-z, 0-9 and -")
        if not path.startswith("/"):
            raise ValueError(f"should say an absolute path of {name}")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("names one twice")
    return ",".join(f"{name}={path}" for name, path in pairs)


Bytes = Annotated[int, BeforeValidator(_size), Field(ge=0)]
Limit = Annotated[int, BeforeValidator(_size), Field(ge=-1, le=LONG_MAX)]
"""Bytes, or -1 for no limit."""
Millis = Annotated[int, Field(ge=0, le=LONG_MAX)]
Retention = Annotated[int, Field(ge=-1, le=LONG_MAX), AfterValidator(_retention)]
"""Milliseconds, or -1 for ever."""
Count = Annotated[int, Field(ge=1)]
Address = Annotated[str, BeforeValidator(_address)]
FixedAddress = Annotated[str, BeforeValidator(_fixed_address)]
Names = Annotated[str, Field(pattern=r"^[\w.,-]*$")]
Policies = Annotated[str, BeforeValidator(_policies)]
Warehouses = Annotated[str, BeforeValidator(_warehouses)]
