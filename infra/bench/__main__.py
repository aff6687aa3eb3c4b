"""Lakelog, Apache Kafka, and Apache Kafka with an fsync each, in alternation.

Each test first runs against each broker until two runs in a row agree within a tenth: a
JVM that has not compiled yet shows half of its speed. The first figure is shown, and
not counted. Then it runs against each in turn, ``--rounds`` times; only the broker
under test works, the others idle. Lakelog is there three times: with its compactor, to
which a run that is not counted has just given something to do; without; and without,
acknowledging before the sync (``wal.sync=interval``). What one has left to be written
is on the disk before the next is counted; and what the disk takes by itself for writes
at the same pace stands beside each figure that has a sync in it. Ratios of medians
count; absolute figures are this machine's. Results go to ``bench-results/``: a JSON
line per run, a table with goals, a plot. Costs, the lake, key compaction and pipelines
follow, each with its own tables.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from infra.bench import brokers, costs, key_compaction, lake, pipelines, tools
from infra.bench.bare_disk import paced_figures
from infra.bench.measures import Bench, Figures, Sizes
from infra.bench.records import write_json_lines
from infra.bench.table import Results, shown

console = Console()

Test = Callable[[brokers.Measured], Figures]

AGREE = 0.1
DISK = "disk alone"
DISK_S = 4.0
PACES = {
    "acknowledgement at 200/s": 200,
    "acknowledgement at 20 MB/s": 20_000,
    "acknowledgement at 60 MB/s": 60_000,
    "end to end at 1,000/s": 1_000,
}
"""Records a second of the tests that wait for syncs."""
WARM_RUNS_MAX = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument(
        "--only", default="", help="tests whose name contains this, or one of A|B|C"
    )
    parser.add_argument(
        "--warm", type=int, default=WARM_RUNS_MAX, help="at most so many runs before"
    )
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument(
        "--without-lake", action="store_true", help="brokers and their costs alone"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def main() -> None:
    given = arguments()
    out: Path = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    lines = write_json_lines(out / "records.json", 1_000_000)
    sizes = Sizes().quick() if given.quick else Sizes()
    bench = Bench(out, lines, sizes)
    if _chosen(bench, given.only):
        _measure_brokers(out, bench, given)
    costs.measure(
        out, quick=given.quick, only=given.only, without_kafka=given.without_kafka
    )
    if not given.without_lake:
        lake.measure(out, quick=given.quick, only=given.only)
        if given.only in "keys":
            records, keys = key_compaction.sizes(quick=given.quick)
            key_compaction.measure(
                out, records=records, keys=keys, without_kafka=given.without_kafka
            )
        if not given.without_kafka and given.only in "pipelines":
            pipelines.measure(out, quick=given.quick)


def _chosen(bench: Bench, only: str) -> dict[str, Test]:
    """The tests that contain ``only``, or one of several with ``|`` between."""
    tests, wanted = bench.tests().items(), only.split("|")
    return {name: test for name, test in tests if any(one in name for one in wanted)}


def _measure_brokers(out: Path, bench: Bench, given: argparse.Namespace) -> None:
    """The tests of a broker by itself, its start, its memory, and its restart."""
    results = Results(out / f"runs-{int(time.time())}.jsonl")
    rivals = _brokers(out, given.without_kafka)
    try:
        for rival in rivals:
            rival.start()
            results.add("start", rival.name, {"ready s": rival.ready_s})
            results.add("memory, idle", rival.name, {"MB": rival.resident_mb()})
        _measure(rivals, bench, results, given, out)
        for rival in rivals:
            results.add("memory, after", rival.name, {"MB": rival.resident_mb()})
        _restart(rivals, results)
    finally:
        for rival in rivals:
            rival.stop()
        _write_results(results, out, [*(rival.name for rival in rivals), DISK])


def _brokers(out: Path, without_kafka: bool) -> list[brokers.Measured]:
    found: list[brokers.Measured] = [
        brokers.Lakelog(out / "lakelog"),
        brokers.LakelogAlone(out / "lakelog-alone"),
        brokers.LakelogInterval(out / "lakelog-interval"),
    ]
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
    out: Path,
) -> None:
    for name, test in _chosen(bench, given.only).items():
        began = time.monotonic()
        taking = [rival for rival in rivals if rival.takes(name)]
        for rival in taking:
            first = _warm_up(name, test, rival, given.warm)
            results.add_first(name, rival.name, first)
        warm_s = time.monotonic() - began
        for number in range(given.rounds):
            turn = number % len(taking)
            for rival in taking[turn:] + taking[:turn]:
                found = _counted(test, rival)
                results.add(name, rival.name, found)
                figures_text = ", ".join(f"{k} {v:,.4g}" for k, v in found.items())
                console.print(f"{name} | {rival.name}: {figures_text}", highlight=False)
            if (records := PACES.get(name)) is not None:
                found = paced_figures(out, records, DISK_S)
                results.add(name, DISK, found)
        for rival in taking:
            bench.forget(rival)
        took = f"{time.monotonic() - began:.0f} s, {warm_s:.0f} of them to warm up"
        console.print(f"{name} took {took}", highlight=False)


def _counted(test: Test, rival: brokers.Measured) -> Figures:
    """One counted run, on a disk that owes nobody anything; what is to follow it at
    work has work, and then rests."""
    os.sync()
    if rival.works_behind:
        _run(test, rival)
    found = _run(test, rival)
    rival.rest()
    return found


def _run(test: Test, rival: brokers.Measured) -> Figures:
    """One that fails twice has no figures; the others keep theirs."""
    for _ in range(2):
        try:
            return test(rival)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            console.print(f"{rival.name}: {error}", highlight=False)
    return {}


def _warm_up(name: str, test: Test, rival: brokers.Measured, runs_max: int) -> Figures:
    """Run it until two in a row agree, if they ever do; the first run's figures."""
    figure = shown(name)[0].figure
    first = last = _run(test, rival)
    for _ in range(runs_max - 1):
        found, before = _run(test, rival), last.get(figure, 0.0)
        last = found
        if before and abs(found.get(figure, 0.0) - before) <= AGREE * before:
            break
    rival.rest()
    return first


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


def _write_results(results: Results, out: Path, names: list[str]) -> None:
    table = results.markdown(names[0], names[1:])
    (out / "table.md").write_text(table + "\n")
    if names[1:]:
        results.plot(out / "ratios.png", names[0], names[1:])
    console.print(table, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
