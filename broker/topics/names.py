"""Which topic names are allowed.

The rules are Kafka's (``org.apache.kafka.common.internals.Topic``), so that whatever is
allowed there is allowed here. A name is never a path: how a topic's table is called is
decided in ``lakehouse/location.py``.
"""

import re
from typing import Final

from broker.protocol.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def validate(name: str | None) -> str:
    """The name itself. Raises KafkaError INVALID_TOPIC_EXCEPTION, saying why."""
    fault = _fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    assert name is not None
    return name


def _fault(name: str | None) -> str | None:
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            "Topic name is invalid: the length of "
            f"'{name[:NAME_LENGTH_MAX]}...' is longer than the max allowed "
            f"length {NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: {name!r} contains one or more characters other "
            "than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def shown(name: str) -> str:
    """A name that a client made up, as messages repeat it: not much longer than one."""
    if len(name) <= NAME_LENGTH_MAX:
        return name
    return f"{name[:NAME_LENGTH_MAX]}..."


def collision_key(name: str) -> str:
    """What two names have in common that would be one name in Kafka's metrics."""
    return name.replace(".", "_")


class Taken:
    """Names that are in use, to be asked which of them a new one would collide with.

    Only those that could: a name without a dot or an underscore collides with none.
    """

    def __init__(self) -> None:
        # By collision key: the names in the order in which they came.
        self._names: dict[str, dict[str, None]] = {}

    def add(self, name: str) -> None:
        """Use a name; nothing happens the second time."""
        key = collision_key(name)
        if "_" in key:
            self._names.setdefault(key, {})[name] = None

    def discard(self, name: str) -> None:
        """Use a name no more."""
        key = collision_key(name)
        known = self._names.get(key, {})
        known.pop(name, None)
        if not known:
            self._names.pop(key, None)

    def colliding(self, name: str, beside: "Taken | None" = None) -> str | None:
        """The first name that this one collides with; equal names do not, nor do those
        ``beside`` it, which are in use here as well."""
        key = collision_key(name)
        known = self._names.get(key, {})
        fine = {} if beside is None else beside._names.get(key, {})
        if len(known) == len(fine):
            return None  # thousands beside it need not be looked at
        return next((one for one in known if one != name and one not in fine), None)
