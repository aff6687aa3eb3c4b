"""Figures of all rounds -> a Markdown table with goals and ratios, and a plot."""

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from infra.bench.goals import Goal, at_most, no_goal, of_kafka

SYNCED = "Kafka, fsync"


@dataclass(frozen=True)
class Shown:
    """A figure of a test that counts, and what Lakelog's is held to."""

    figure: str
    more_is_better: bool = False
    goal: Goal = field(default_factory=no_goal)


CPU = "broker cpu s/GB"
AS_FAST = of_kafka(1)

# test prefix -> the figures that are shown; the first prefix that fits counts
SHOWN = {
    "produce 100 B": (Shown("msgs/s", True, AS_FAST), Shown(CPU)),
    "produce": (Shown("MB/s", True, AS_FAST), Shown(CPU)),
    "one-record requests, 1 connection": (
        Shown("req/s", True, of_kafka(1.5, SYNCED)),
        Shown("p99"),
    ),
    "one-record": (Shown("req/s", True, of_kafka(0.6)), Shown("p99")),
    "acknowledgement at 200/s": (Shown("p50", goal=at_most(0.65)), Shown("p99")),
    "acknowledgement at 60 MB/s": (Shown("p50"), Shown("p99", goal=at_most(5))),
    "acknowledgement": (Shown("p50"), Shown("p99")),
    "end to end": (Shown("p50", goal=at_most(0.4)), Shown("p99")),
    "consume 100 B": (Shown("msgs/s", True, AS_FAST), Shown(CPU)),
    "consume": (Shown("MB/s", True, AS_FAST), Shown(CPU, goal=at_most(0.5))),
    "start": (Shown("ready s"),),
    "memory, after": (Shown("MB", goal=at_most(400)),),
    "memory": (Shown("MB"),),
    "after kill -9": (Shown("ready s"),),
}


class Results:
    """Rows (test, figure, broker) -> values, one a round; kept as JSON lines."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rows: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.first: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)

    def add_first(self, test: str, broker: str, figures: dict[str, float]) -> None:
        """What the first run showed, before anything was warm; it is not counted."""
        self._keep({"test": test, "broker": broker, "first": True, **figures})
        for one in shown(test):
            if one.figure in figures:
                self.first[test, one.figure][broker] = figures[one.figure]

    def add(self, test: str, broker: str, figures: dict[str, float]) -> None:
        self._keep({"test": test, "broker": broker, **figures})
        for one in shown(test):
            if one.figure in figures:
                self.rows[test, one.figure][broker].append(figures[one.figure])

    def _keep(self, row: dict[str, object]) -> None:
        with self._file.open("a") as out:
            out.write(json.dumps(row) + "\n")

    def markdown(self, ours: str, others: list[str]) -> str:
        """Medians (minimum-maximum), and what the first run showed; ``goal``: what ours
        is held to, and whether its median is; ``x of``: ours over theirs, above 1 is
        better."""
        names = [ours, *others]
        head = ["measure", "goal", "met", *names, *(f"x of {name}" for name in others)]
        lines = [_row(head), _row(["---"] * len(head))]
        for (test, figure), found in self.rows.items():
            first = self.first[test, figure]
            cells = [f"{test}, {figure}", *self._goal(test, figure, ours)]
            cells += [_cell(found.get(name), first.get(name)) for name in names]
            cells += [self._ratio(test, figure, ours, name) for name in others]
            lines.append(_row(cells))
        return "\n".join(lines)

    def _goal(self, test: str, figure: str, ours: str) -> tuple[str, str]:
        """What is asked of it, and "yes", "no", or "-" where nothing tells."""
        goal, found = _shown(test, figure).goal, self.rows[test, figure]
        if not found.get(ours):
            return goal.text, "-"
        beside = found.get(goal.beside)
        theirs = statistics.median(beside) if beside else None
        holds = goal.holds(statistics.median(found[ours]), theirs)
        return goal.text, {True: "yes", False: "no", None: "-"}[holds]

    def ratio(self, test: str, figure: str, ours: str, other: str) -> float | None:
        found = self.rows[test, figure]
        if not found.get(ours) or not found.get(other):
            return None
        mine, theirs = (statistics.median(found[name]) for name in (ours, other))
        more_is_better = _shown(test, figure).more_is_better
        return mine / theirs if more_is_better else theirs / max(mine, 1e-9)

    def _ratio(self, test: str, figure: str, ours: str, other: str) -> str:
        ratio = self.ratio(test, figure, ours, other)
        return "-" if ratio is None else f"{ratio:.2f}"

    def plot(self, file: Path, ours: str, others: list[str]) -> None:
        """Bars of the ratios, on a logarithmic axis with a line at 1."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        labels = [f"{test}, {figure}" for test, figure in self.rows][::-1]
        figure, axes = pyplot.subplots(figsize=(9, 0.45 * len(labels) + 1.5))
        for place, other in enumerate(others):
            ratios = [self.ratio(*key, ours, other) or 1.0 for key in self.rows][::-1]
            where = [i + 0.38 * (0.5 - place) for i in range(len(labels))]
            axes.barh(where, ratios, height=0.36, label=f"against {other}")
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.set_xlabel(f"{ours}: times as good (log scale)")
        axes.legend()
        figure.tight_layout()
        figure.savefig(file, dpi=120)


def shown(test: str) -> tuple[Shown, ...]:
    """The figures that count for a test."""
    return next((SHOWN[key] for key in SHOWN if test.startswith(key)), ())


def _shown(test: str, figure: str) -> Shown:
    return next(one for one in shown(test) if one.figure == figure)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(values: list[float] | None, first: float | None) -> str:
    if not values:
        return "-"
    low, middle, high = min(values), statistics.median(values), max(values)
    first_text = "" if first is None else f"; first {_number(first)}"
    if len(values) == 1:
        return _number(middle) + first_text
    return f"{_number(middle)} ({_number(low)}-{_number(high)}{first_text})"


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
