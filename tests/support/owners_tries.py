"""An owner who tries a statement again as long as somebody's commit came between."""

import time
from typing import NamedTuple

from tests.support.spark_reader import SparkReader

TRIES_MAX = 99


class Tried(NamedTuple):
    """What a statement took: tries, and seconds with all of them."""

    count: int
    seconds: float


class Starved(AssertionError):
    """Delta refused it each time."""


def refusal(analyst: SparkReader, statement: str) -> str | None:
    """Why Spark does not do it; None: it did."""
    try:
        analyst.ask(statement)
    except AssertionError as error:
        return str(error)
    return None


def tried(
    analyst: SparkReader,
    statement: str,
    passing: str = "DELTA_CONCURRENT_APPEND",
    tries_max: int = TRIES_MAX,
) -> Tried:
    """Until Delta takes it. Raises Starved; and AssertionError if it is refused for
    anything but rows that came meanwhile, or what else is ``passing``."""
    began = time.monotonic()
    for count in range(1, tries_max + 1):
        refused = refusal(analyst, statement)
        if refused is None:
            return Tried(count, time.monotonic() - began)
        assert passing in refused, refused
    raise Starved(f"never: {statement}: {refused}")
