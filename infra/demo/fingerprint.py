"""One hash per partition over everything a consumer can see of its records.

Records are noted while they fly and hashed afterwards: what is measured is the broker,
not the hashing.
"""

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

_HEAD = struct.Struct(">qqbii")


class Seen(NamedTuple):
    """A record as a client saw it. ``timestamp`` is (kind, ms) as librdkafka has it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def digest(self) -> bytes:
        """Over all of it, in order; null and empty differ."""
        kind, stamp = self.timestamp
        hashed = hashlib.blake2b(digest_size=16)
        lengths = (_length(self.key), _length(self.value))
        hashed.update(_HEAD.pack(self.offset, stamp, kind, *lengths))
        hashed.update(self.key or b"")
        hashed.update(self.value or b"")
        for name, content in self.headers:
            hashed.update(struct.pack(">ii", len(name), _length(content)))
            hashed.update(name.encode() + (content or b""))
        return hashed.digest()


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


class Fingerprint:
    """Gathers records in any order; equal only if every record is equal."""

    def __init__(self) -> None:
        self._seen: dict[int, list[Seen]] = defaultdict(list)
        self.records = 0

    def consumed(self, message: Any) -> None:
        """Note a record as a consumer got it."""
        self.acknowledged(
            message, message.key(), message.value(), message.headers() or ()
        )

    def acknowledged(
        self,
        message: Any,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """Note a record as it was produced; its offset and time are told by the ack.

        (A delivered message does not carry its headers any more.)
        """
        seen = Seen(message.offset(), message.timestamp(), key, value, headers)
        self._seen[message.partition()].append(seen)
        self.records += 1

    def twice(self) -> int:
        """How many records came more than once."""
        return self.records - sum(
            len({seen.offset for seen in found}) for found in self._seen.values()
        )

    def partitions(self) -> dict[int, str]:
        """Partition -> hex hash over its records in offset order."""
        return {
            number: _joined(seen.digest() for seen in sorted(found, key=_offset))
            for number, found in sorted(self._seen.items())
        }


def _offset(seen: Seen) -> int:
    return seen.offset


def _joined(digests: Iterable[bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for digest in digests:
        hashed.update(digest)
    return hashed.hexdigest()
