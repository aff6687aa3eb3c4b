"""Which (API, version) pairs a script has asked, so that its record can say so.

``telling`` puts lines ``asked Metadata v0-13`` before what a table says. They stand in
the recorded files, which two brokers are held to; ``pairs`` reads them back, so that a
pair that nobody asks a Kafka about is seen without a Kafka, and without a broker.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Concatenate, Final, ParamSpec

from broker.protocol.api_keys import ApiKey

P = ParamSpec("P")
Pair = tuple[int, int]
"""An API's key and a version."""

_ASKED: Final = re.compile(r"asked (\w+) v([\d,-]+)")
_heard: set[Pair] = set()


def hear(key: int, version: int) -> None:
    """An answer in this version is here, whole."""
    _heard.add((int(key), version))


def telling(
    table: Callable[Concatenate[str, P], list[str]],
) -> Callable[Concatenate[str, P], list[str]]:
    """The same table, with what was asked and answered for it in front."""

    @wraps(table)
    def told(bootstrap: str, *args: P.args, **kwargs: P.kwargs) -> list[str]:
        _heard.clear()
        lines = table(bootstrap, *args, **kwargs)
        return [*lines_of(_heard), *lines]

    return told


def lines_of(pairs_: Iterable[Pair]) -> list[str]:
    """A line for each key, by number, with all of its versions."""
    by_key: dict[int, list[int]] = {}
    for key, version in sorted(pairs_):
        by_key.setdefault(key, []).append(version)
    return [f"asked {ApiKey(key).name} v{_runs(by_key[key])}" for key in sorted(by_key)]


def _runs(versions: list[int]) -> str:
    """``0-2,5`` for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and version == runs[-1][1] + 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def pairs(lines: Iterable[str]) -> Iterator[Pair]:
    """What the lines of a record say was asked."""
    for line in lines:
        if match := _ASKED.fullmatch(line):
            key = int(ApiKey[match[1]])
            for run in match[2].split(","):
                low, _, high = run.partition("-")
                for version in range(int(low), int(high or low) + 1):
                    yield key, version
