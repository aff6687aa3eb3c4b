"""A topic, as everybody here knows it.

Three names for one thing, each for its own use: the ``name`` is what people type, and
may come back after a deletion as somebody else; the ``id`` is what clients hold to
notice that (KIP-516); the ``number`` is what the segments write, small and never
given twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.ids import PartitionNumber, TopicNumber, TopicPartition

INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka's own topics. Clients cannot make them; the catalog holds what they would."""

SHOWN_NUMBER: Final = TopicNumber(0)
"""Of topics that are shown and not stored; the catalog's numbers begin at 1."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``configs`` are its own settings, as text; defaults are not in it."""

    number: TopicNumber
    id: bytes
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        """Whether clients shall treat it as one of Kafka's own."""
        return self.name in INTERNAL

    @property
    def stored(self) -> bool:
        """Whether it has records, a table, a row in the catalog."""
        return self.number != SHOWN_NUMBER

    def key(self, index: int) -> TopicPartition:
        """Return what names its partition ``index`` within the broker."""
        return self.number, PartitionNumber(index)


CONSUMER_OFFSETS: Final = Topic(
    SHOWN_NUMBER,
    b"consumer_offsets",
    "__consumer_offsets",
    50,
    {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
)
"""As an Apache Kafka shows it: clients look for it and count its partitions. It is
empty, since offsets are in the catalog, and nobody can write to it or change it."""


def offsets_partition(group_id: str) -> int:
    """The partition of `CONSUMER_OFFSETS` in which Kafka would keep a group's offsets,
    by Java's hash of its id (``GroupMetadataManager.partitionFor``)."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    signed = hashed - (hashed >> 31 << 32)
    return 0 if signed == -(2**31) else abs(signed) % CONSUMER_OFFSETS.partitions
