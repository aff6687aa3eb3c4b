"""How far a group is behind: its committed offsets against the ends of the log.

Only partitions count that the group committed an offset of and that are still there, as
in Confluent's proxy. Where nobody reads a partition now, its reader has no names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reader:
    """The consumer that has a partition."""

    consumer_id: str = ""
    instance_id: str | None = None
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Lag:
    """A partition, where the group is and where the log ends."""

    topic: str
    partition: int
    current_offset: int
    end_offset: int
    reader: Reader

    @property
    def records(self) -> int:
        """How many are still to be read; none where the group is past the end."""
        return max(0, self.end_offset - self.current_offset)


NOBODY = Reader()


def readers(members: Iterable[Any]) -> dict[tuple[str, int], Reader]:
    """Who has which partition, from librdkafka's MemberDescriptions."""
    return {
        (one.topic, one.partition): Reader(
            member.member_id, member.group_instance_id, member.client_id
        )
        for member in members
        for one in member.assignment.topic_partitions
    }


def lags(
    committed: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    of_whom: Mapping[tuple[str, int], Reader],
) -> list[Lag]:
    """The lag of each partition, sorted by topic and partition."""
    return [
        Lag(
            topic=own[0],
            partition=own[1],
            current_offset=committed[own],
            end_offset=ends[own],
            reader=of_whom.get(own, NOBODY),
        )
        for own in sorted(committed)
        if own in ends
    ]
