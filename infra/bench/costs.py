"""What coordination costs, and clients of Kafka 0.8 to 0.10: each figure and its goal.

``python -m infra.bench.costs [--quick] [--only NAME]``, and a part of ``make bench``
(alone: ``make bench ONLY=costs``). Lakelog, durable and with its compactor, and Apache
Kafka, which does not fsync, take turns test by test; the other one idles. What old
clients send and fetch is converted by Lakelog only. Medians count. Results go to
``bench-results/costs.md`` and, a line per run, to ``bench-results/costs-<time>.jsonl``.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from statistics import median

from rich.console import Console

from infra.bench import brokers, tools
from infra.bench.brokers import Measured
from infra.bench.cost_measures import Cost, CostBench, Sizes
from infra.bench.records import write_json_lines

console = Console()

Found = dict[tuple[str, str], dict[str, list[float]]]
"""(test, figure) -> broker -> a value a round."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bench.costs")
    parser.add_argument("--quick", action="store_true", help="shorter runs, one round")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    measure(
        given.out.absolute(),
        quick=given.quick,
        only=given.only,
        without_kafka=given.without_kafka,
    )


def measure(
    out: Path, *, quick: bool = False, only: str = "", without_kafka: bool = False
) -> None:
    """Run the tests and write what they found into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    lines = write_json_lines(out / "records.json", 1_000_000)
    bench = CostBench(out, lines, Sizes().quick() if quick else Sizes())
    file, found = out / f"costs-{int(time.time())}.jsonl", Found()
    beside = {name: c for name, c in bench.beside_kafka().items() if only in name}
    alone = {name: c for name, c in bench.of_old_clients().items() if only in name}
    _run(beside, _both(out, without_kafka) if beside else [], found, file)
    _run(alone, [_converting(out)] if alone else [], found, file)
    if found:
        table = markdown(found, beside | alone)
        (out / "costs.md").write_text(table + "\n")
        console.print(table, highlight=False, soft_wrap=True)


def _both(out: Path, without_kafka: bool) -> list[Measured]:
    found: list[Measured] = [brokers.Lakelog(out / "costs-lakelog")]
    if not without_kafka:
        jars = brokers.collect_jars(out / "kafka")
        found.append(brokers.Kafka(out / "costs-kafka", jars))
    return found


def _converting(out: Path) -> Measured:
    """Without its compactor: what is fetched stands in segments, not in a table."""
    converting = brokers.LakelogAlone(out / "costs-alone")
    converting.name = brokers.Lakelog.name
    return converting


def _run(
    costs: dict[str, Cost], rivals: list[Measured], found: Found, file: Path
) -> None:
    """Each test in turns, then the next."""
    try:
        for rival in rivals:
            rival.start()
        for name, cost in costs.items():
            for number in range(-cost.warm, cost.rounds):
                for rival in rivals[:: -1 if number % 2 else 1]:
                    figures = cost.run(rival)
                    if cost.leaves_work:
                        rival.rest()
                    _keep(file, name, rival.name, figures, is_warm_up=number < 0)
                    for figure in cost.goals if number >= 0 else ():
                        values = found.setdefault((name, figure), {})
                        values.setdefault(rival.name, []).append(figures[figure])
    finally:
        for rival in rivals:
            rival.stop()
            shutil.rmtree(rival.home, ignore_errors=True)


def _keep(
    file: Path, name: str, broker: str, figures: dict[str, float], *, is_warm_up: bool
) -> None:
    row = {"test": name, "broker": broker, "first": is_warm_up}
    with file.open("a") as out:
        out.write(json.dumps(row | {"load": os.getloadavg()[0]} | figures) + "\n")
    text = ", ".join(f"{key} {value:,.4g}" for key, value in figures.items())
    warm = " (not counted)" if is_warm_up else ""
    console.print(f"{name} | {broker}{warm}: {text}", highlight=False)


def markdown(found: Found, costs: dict[str, Cost]) -> str:
    """Medians (minimum-maximum), how often Kafka's, the goal and whether it is met."""
    ours, theirs = brokers.Lakelog.name, brokers.Kafka.name
    head = ("measure", "figure", ours, theirs, f"of {theirs}'s", "goal", "met")
    rows = [head, ("---",) * len(head)]
    for (name, figure), values in found.items():
        mine, other = median(values[ours]), values.get(theirs)
        kafkas, goal = median(other) if other else None, costs[name].goals[figure]
        ratio = f"{mine / kafkas:.2f}" if kafkas else "-"
        met = {True: "yes", False: "no", None: "-"}[goal.holds(mine, kafkas)]
        cells = _cell(values[ours]), _cell(other)
        rows.append((name, figure, *cells, ratio, goal.text, met))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(values: list[float] | None) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return _number(values[0])
    low, high = _number(min(values)), _number(max(values))
    return f"{_number(median(values))} ({low}-{high})"


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


if __name__ == "__main__":
    main()
