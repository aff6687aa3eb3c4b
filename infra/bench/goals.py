"""What a figure is held to: by itself, or beside Apache Kafka's in the same run."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """``holds(ours, Kafka's or None)``; None where there is nothing to hold it to."""

    text: str
    holds: Callable[[float, float | None], bool | None]
    beside: str = "Kafka"
    """Whose figure it is held beside, if anybody's."""


def at_most(limit: float) -> Goal:
    return Goal(f"<= {limit:g}", lambda ours, _: ours <= limit)


def at_least(limit: float) -> Goal:
    return Goal(f">= {limit:g}", lambda ours, _: ours >= limit)


def of_kafka(ratio: float, beside: str = "Kafka") -> Goal:
    """At least so many times the figure of Kafka, or of another one ``beside``."""
    whose = "" if beside == "Kafka" else f" ({beside})"
    return Goal(
        f">= {ratio:g} of Kafka's{whose}",
        lambda ours, theirs: None if theirs is None else ours >= ratio * theirs,
        beside,
    )


def no_goal() -> Goal:
    return Goal("", lambda _ours, _theirs: None)
