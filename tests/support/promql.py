"""The little of PromQL that our alerts are written in, over series made up by a test.

A series is ``name{label="value"}`` with a value for each minute, the last one now.
What is not known here is a mistake: AssertionError, or KeyError for a function.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NOW_S = 1_700_000_000.0
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Range = tuple[float, dict[Labels, list[float]]]
Series = Mapping[str, Sequence[float]]

_TOKEN = re.compile(r'\s*(\d+[smhd]|[\d.]+|\w+|"[^"]*"|==|[<>=*(){}\[\],-])')
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_COMPARED = {"==": operator.eq, "<": operator.lt, ">": operator.gt}


def found_by(query: str, series: Series) -> Vector:
    """What the query gives now; an alert of it fires for each that it gives."""
    reader = _Reader(query, series)
    found = reader.compared()
    assert not reader.tokens, reader.tokens
    assert isinstance(found, dict), "a number is no alert"
    return found


class _Reader:
    def __init__(self, query: str, series: Series) -> None:
        self.tokens = _TOKEN.findall(query)
        assert "".join(self.tokens) == re.sub(r"\s", "", query)
        self.series = {
            (name, frozenset(_LABEL.findall(text))): values
            for name, text, values in (
                (*one.partition("{")[::2], values) for one, values in series.items()
            )
        }

    def take(self, *wanted: str) -> str:
        """The next token, if it is wanted; else an empty one."""
        is_wanted = self.tokens and self.tokens[0] in wanted
        return self.tokens.pop(0) if is_wanted else ""

    def expect(self, *wanted: str) -> str:
        assert self.tokens[0] in wanted, (wanted, self.tokens)
        return self.tokens.pop(0)

    def compared(self) -> Any:
        left = self.difference()
        if sign := self.take(*_COMPARED):
            right, is_so = self.difference(), _COMPARED[sign]
            holds = _joined(left, right, is_so)
            return {labels: left[labels] for labels, yes in holds.items() if yes}
        return left

    def difference(self) -> Any:
        left = self.product()
        while self.take("-"):
            left = _joined(left, self.product(), operator.sub)
        return left

    def product(self) -> Any:
        left = self.one()
        while self.take("*"):
            left = _joined(left, self.one(), operator.mul)
        return left

    def one(self) -> Any:
        word = self.tokens.pop(0)
        if re.fullmatch(r"[\d.]+", word):
            return float(word)
        if word in _GROUPED and self.tokens[0] == "by":
            return self.grouped(_GROUPED[word])
        if self.take("("):
            return _FUNCTIONS[word](*self.arguments())
        return self.selected(word)

    def arguments(self) -> list[Any]:
        """Up to the parenthesis that closes them."""
        found = []
        while not self.take(")"):
            found.append(self.compared())
            self.take(",")
        return found

    def grouped(self, together: Callable[[list[float]], float]) -> Vector:
        self.expect("by")
        self.expect("(")
        names = []
        while not self.take(")"):
            names.append(self.tokens.pop(0))
            self.take(",")
        self.expect("(")
        [vector] = self.arguments()
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            kept = frozenset(one for one in labels if one[0] in names)
            groups.setdefault(kept, []).append(value)
        return {labels: together(values) for labels, values in groups.items()}

    def selected(self, name: str) -> Vector | Range:
        wanted = set()
        while self.take("{", ","):
            label = self.tokens.pop(0)
            self.expect("=")
            wanted.add((label, self.tokens.pop(0).strip('"')))
            self.take("}")
        found = {
            labels: values
            for (one, labels), values in self.series.items()
            if one == name and wanted <= labels
        }
        if not self.take("["):
            return {labels: values[-1] for labels, values in found.items()}
        length = self.tokens.pop(0)
        self.expect("]")
        seconds = int(length[:-1]) * _SECONDS[length[-1]]
        minutes = seconds // 60 + 1
        return seconds, {one: list(values[-minutes:]) for one, values in found.items()}


def _joined(left: Any, right: Any, both: Callable[[float, float], Any]) -> Any:
    """Numbers with numbers, a series with a number or with that of its labels."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {one: both(left[one], right[one]) for one in left.keys() & right.keys()}
    if isinstance(left, dict):
        return {one: both(value, right) for one, value in left.items()}
    if isinstance(right, dict):
        return {one: both(left, value) for one, value in right.items()}
    return both(left, right)


def _increase(given: Range) -> Vector:
    """Without what Prometheus adds for the ends of the range that have no sample."""
    _, found = given
    return {one: values[-1] - values[0] for one, values in found.items() if values[1:]}


def _rate(given: Range) -> Vector:
    return {one: value / given[0] for one, value in _increase(given).items()}


def _quantile(share: float, buckets: Vector) -> Vector:
    """As `histogram_quantile`: linear within the bucket where the share is reached."""
    groups: dict[Labels, dict[float, float]] = {}
    for labels, count in buckets.items():
        bounds = groups.setdefault(frozenset(x for x in labels if x[0] != "le"), {})
        bounds[float(dict(labels)["le"])] = count
    return {labels: _reached(share, bounds) for labels, bounds in groups.items()}


def _reached(share: float, bounds: dict[float, float]) -> float:
    wanted, below, counted = share * bounds[math.inf], 0.0, 0.0
    if not bounds[math.inf]:
        return math.nan
    for bound, count in sorted(bounds.items()):
        if count >= wanted:
            part = (wanted - counted) / (count - counted)
            return below if bound == math.inf else below + (bound - below) * part
        below, counted = bound, count
    raise AssertionError("the last bucket counts all")


_GROUPED: dict[str, Callable[[list[float]], float]] = {"max": max, "sum": sum}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "histogram_quantile": _quantile,
    "increase": _increase,
    "rate": _rate,
    "time": lambda: NOW_S,
}
