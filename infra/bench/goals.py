"""What a figure is held to: by itself, or beside Apache Kafka's in the same run."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """``holds(ours, Kafka's or None)``; None where there is nothing to hold it to."""

    text: str
    holds: Callable[[float, float | None], bool | None]


def at_most(limit: float) -> Goal:
    return Goal(f"<= {limit:g}", lambda ours, _: ours <= limit)


def at_least(limit: float) -> Goal:
    return Goal(f">= {limit:g}", lambda ours, _: ours >= limit)


def of_kafka(ratio: float) -> Goal:
    """At least so many times Kafka's figure."""
    return Goal(
        f">= {ratio:g} of Kafka's",
        lambda ours, theirs: None if theirs is None else ours >= ratio * theirs,
    )


def no_goal() -> Goal:
    return Goal("", lambda _ours, _theirs: None)
