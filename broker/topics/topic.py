"""A topic, as everybody here knows it.

Three names for one thing, each for its own use: the ``name`` is what people type, and
may come back after a deletion as somebody else; the ``id`` is what clients hold to
notice that (KIP-516); the ``number`` is what the segments write, small and never
given twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

INTERNAL = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Kafka's own topics. Here none of them exists: the catalog holds what they would."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``configs`` are its own settings, as text; defaults are not in it."""

    number: int
    id: bytes
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        """Whether clients shall treat it as one of Kafka's own."""
        return self.name in INTERNAL
