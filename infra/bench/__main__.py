"""Lakelog, Apache Kafka, and Apache Kafka with an fsync each, in alternation.

Every test runs against each broker in turn, ``--rounds`` times; only the broker under
test works, the others idle. Ratios of medians count; absolute figures are this
machine's. Results go to ``bench-results/``: a JSON line per run, a table, a plot.
"""

import argparse
import time
from pathlib import Path

from rich.console import Console

from infra.bench import brokers, lake, tools
from infra.bench.measures import Bench, Sizes
from infra.bench.records import write_json_lines
from infra.bench.table import Results

console = Console()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def main() -> None:
    given = arguments()
    out: Path = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    lines = write_json_lines(out / "records.json", 1_000_000)
    sizes = Sizes().quick() if given.quick else Sizes()
    results = Results(out / f"runs-{int(time.time())}.jsonl")
    rivals = _brokers(out, given.without_kafka)
    try:
        for rival in rivals:
            rival.start()
            results.add("start", rival.name, {"ready s": rival.ready_s})
            results.add("memory, idle", rival.name, {"MB": rival.resident_mb()})
        _measure(rivals, Bench(out, lines, sizes), results, given)
        for rival in rivals:
            results.add("memory, after", rival.name, {"MB": rival.resident_mb()})
        _restart(rivals, results)
    finally:
        for rival in rivals:
            rival.stop()
    _tell(results, out, [rival.name for rival in rivals])
    lake.measure(out, quick=given.quick, only=given.only)


def _brokers(out: Path, without_kafka: bool) -> list[brokers.Measured]:
    found: list[brokers.Measured] = [brokers.Lakelog(out / "lakelog")]
    if not without_kafka:
        jars = brokers.collect_jars(out / "kafka")
        found.append(brokers.Kafka(out / "kafka-default", jars))
        found.append(brokers.KafkaSynced(out / "kafka-fsync", jars))
    return found


def _measure(
    rivals: list[brokers.Measured],
    bench: Bench,
    results: Results,
    given: argparse.Namespace,
) -> None:
    tests = {n: t for n, t in bench.tests().items() if given.only in n}
    _warm_up(rivals, bench)
    for name, test in tests.items():
        for number in range(given.rounds):
            for rival in (
                rivals[number % len(rivals) :] + rivals[: number % len(rivals)]
            ):
                found = test(rival)
                results.add(name, rival.name, found)
                told = ", ".join(f"{k} {v:,.4g}" for k, v in found.items())
                console.print(f"{name} | {rival.name}: {told}", highlight=False)


def _warm_up(rivals: list[brokers.Measured], bench: Bench) -> None:
    """A JVM that has not compiled yet shows a third of its speed."""
    tests = bench.tests()
    for rival in rivals:
        for name in (
            "produce 1 kB, 6 partitions",
            "one-record requests, 16 connections",
        ):
            tests[name](rival)


def _restart(rivals: list[brokers.Measured], results: Results) -> None:
    """One that does not come back has no figure; the others keep theirs."""
    for rival in rivals:
        rival.kill()
        try:
            rival.start()
        except RuntimeError as error:
            console.print(f"after kill -9 | {rival.name}: {error}", highlight=False)
        else:
            results.add("after kill -9", rival.name, {"ready s": rival.ready_s})


def _tell(results: Results, out: Path, names: list[str]) -> None:
    table = results.markdown(names[0], names[1:])
    (out / "table.md").write_text(table + "\n")
    if names[1:]:
        results.plot(out / "ratios.png", names[0], names[1:])
    console.print(table, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
