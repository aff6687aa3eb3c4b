"""Where each partition is set to: decided from offsets, asked of nobody.

As Kafka's own tool does: an offset outside of the log is moved to its nearer end, and a
time after the last record means the end. The end is that of all records, those of open
transactions too: a group that reads them is not set back by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from admin_api.problems import Problem
from admin_api.resets.schemas import ResetOffsets, ResetPartition, Target

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Offsets:
    """What is known of the partitions; those without ends are gone."""

    committed: Mapping[Key, int]
    earliest: Mapping[Key, int]
    latest: Mapping[Key, int]
    at_time: Mapping[Key, int]
    """The first offset at the asked time, -1 if there is none."""


def plan(wanted: ResetOffsets, known: Offsets) -> list[ResetPartition]:
    """Each partition with its new offset.

    Raises Problem where an offset is to be moved that was never committed.
    """
    return [
        ResetPartition(
            topic_name=key[0],
            partition_id=key[1],
            current_offset=known.committed.get(key),
            new_offset=max(earliest, min(latest, _offset(wanted, key, known))),
            earliest_offset=earliest,
            latest_offset=latest,
        )
        for key, earliest in sorted(known.earliest.items())
        if (latest := known.latest.get(key)) is not None
    ]


def _offset(wanted: ResetOffsets, key: Key, known: Offsets) -> int:
    value, latest = wanted.value or 0, known.latest[key]
    match wanted.to:
        case Target.EARLIEST:
            return known.earliest[key]
        case Target.LATEST:
            return latest
        case Target.OFFSET:
            return value
        case Target.TIMESTAMP | Target.DURATION:
            found = known.at_time.get(key, -1)
            return latest if found < 0 else found
        case Target.CURRENT:
            return known.committed.get(key, latest)
        case Target.SHIFT:
            return _committed(key, known) + value


def _committed(key: Key, known: Offsets) -> int:
    if key not in known.committed:
        raise Problem(
            40902,
            f"{key[0]}-{key[1]} cannot be shifted: the group has committed no offset "
            "of it.",
        )
    return known.committed[key]
