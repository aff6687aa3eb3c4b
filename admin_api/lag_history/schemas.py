"""Lag over time, as ``/v1`` shows it."""

from pydantic import BaseModel, Field

from admin_api.fields import (
    TIME_MS,
    GroupIdField,
    TopicNameField,
)
from admin_api.lag_history.ring import LagRing, LeftOut, Series, total
from admin_api.problems import Problem

ROWS_MAX = 200


class LagPoint(BaseModel):
    """The lag at a time."""

    time_ms: int = Field(description="Milliseconds since 1970.", examples=[TIME_MS])
    lag: int = Field(description="Records that it was behind.", examples=[300])


class LagRow(BaseModel):
    """The lags of a topic, or of one of its partitions."""

    topic_name: TopicNameField
    partition_id: int | None = Field(
        description="The partition; null: of all partitions together.", examples=[0]
    )
    points: list[LagPoint] = Field(description="The oldest first.")


class LagLeftOut(BaseModel):
    """What there was no room for when the lags were last kept, of all groups."""

    groups: int = Field(
        description="Groups, by name behind the last one that is looked at.",
        examples=[0],
    )
    partitions: int = Field(
        description="Partitions of the groups that are looked at.", examples=[0]
    )


class LagHistory(BaseModel):
    """How far a group was behind."""

    consumer_group_id: GroupIdField
    interval_ms: int = Field(description="A point is taken so often.", examples=[60000])
    total: list[LagPoint] = Field(description="Of all that is in `data` or left out.")
    data: list[LagRow] = Field(
        description=f"The {ROWS_MAX} that are behind the most now."
    )
    left_out: LagLeftOut = Field(description="What there was no room for.")


def history(
    ring: LagRing,
    left_out: LeftOut,
    group: str,
    topic: str | None,
    since_ms: int,
    interval_ms: int,
) -> LagHistory:
    """The lags of a group by topic; of one topic by partition. Raises Problem 404."""
    found = [one for one in ring.series(group, since_ms) if topic in (None, one.topic)]
    if not found:
        where = "" if topic is None else f" for topic {topic}"
        raise Problem(
            404,
            f"No lag of consumer group {group}{where} was kept yet{_why(left_out)}.",
        )
    rows = _by_topic(found) if topic is None else [_row(one) for one in found]
    rows.sort(key=lambda row: -row.points[-1].lag)
    return LagHistory(
        consumer_group_id=group,
        interval_ms=interval_ms,
        total=_points(total(found)),
        data=rows[:ROWS_MAX],
        left_out=LagLeftOut(groups=left_out.groups, partitions=left_out.partitions),
    )


def _why(left_out: LeftOut) -> str:
    if not left_out.groups and not left_out.partitions:
        return ""
    return (
        f"; {left_out.groups} groups and {left_out.partitions} partitions are left "
        "out, for which there is no room"
    )


def _by_topic(found: list[Series]) -> list[LagRow]:
    topics: dict[str, list[Series]] = {}
    for one in found:
        topics.setdefault(one.topic, []).append(one)
    return [
        LagRow(topic_name=name, partition_id=None, points=_points(total(own)))
        for name, own in topics.items()
    ]


def _row(one: Series) -> LagRow:
    return LagRow(
        topic_name=one.topic, partition_id=one.partition, points=_points(one.points)
    )


def _points(found: list[tuple[int, int]]) -> list[LagPoint]:
    return [LagPoint(time_ms=at_ms, lag=lag) for at_ms, lag in found]
