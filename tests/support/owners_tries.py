"""An owner who tries a statement again as long as somebody's commit came between."""

import time
from typing import NamedTuple

from tests.support.spark_reader import SparkReader

TRIES = range(1, 100)


class Tried(NamedTuple):
    """What a statement took: tries, and seconds with all of them."""

    count: int
    seconds: float


def refusal(analyst: SparkReader, statement: str) -> str | None:
    """Why Spark does not do it; None: it did."""
    try:
        analyst.ask(statement)
    except AssertionError as error:
        return str(error)
    return None


def tried(analyst: SparkReader, statement: str) -> Tried:
    """Until Delta takes it. Raises AssertionError if it is refused for anything but
    rows that came meanwhile."""
    began = time.monotonic()
    for count in TRIES:
        refused = refusal(analyst, statement)
        if refused is None:
            return Tried(count, time.monotonic() - began)
        assert "DELTA_CONCURRENT_APPEND" in refused
    raise AssertionError(f"never: {statement}")
