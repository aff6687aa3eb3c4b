"""One hash per partition over everything a consumer can see of its records."""

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

_HEAD = struct.Struct(">qqbii")


def of_record(message: Any) -> bytes:
    """Digest of offset, timestamp and its type, key, value and headers, in order.

    ``message`` is a client's message, delivered or consumed. Null and empty differ.
    """
    kind, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    hashed = hashlib.blake2b(digest_size=16)
    head = _HEAD.pack(message.offset(), timestamp, kind, _length(key), _length(value))
    hashed.update(head)
    hashed.update(key or b"")
    hashed.update(value or b"")
    for name, content in message.headers() or ():
        hashed.update(struct.pack(">ii", len(name), _length(content)))
        hashed.update(name.encode() + (content or b""))
    return hashed.digest()


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


class Fingerprint:
    """Gathers digests in any order; equal only if every record is equal."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.records = 0
        self.twice = 0

    def add(self, message: Any) -> None:
        digests, offset = self._seen[message.partition()], message.offset()
        self.twice += offset in digests
        digests[offset] = of_record(message)
        self.records += 1

    def partitions(self) -> dict[int, str]:
        """Partition -> hex hash over its records in offset order."""
        return {
            number: _joined(digests[offset] for offset in sorted(digests))
            for number, digests in sorted(self._seen.items())
        }


def _joined(digests: Iterable[bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for digest in digests:
        hashed.update(digest)
    return hashed.hexdigest()
