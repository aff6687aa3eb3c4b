"""Figures of the lake: compaction, freshness, cold reads, recovery, memory, disk.

``python -m infra.bench.lake [--quick] [--only NAME]``, and the end of ``make bench``.
Each figure stands beside its target; results go to ``bench-results/lake.md`` and, as
JSON lines, to ``bench-results/lake-<time>.jsonl``.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

from rich.console import Console

from infra.bench import tools
from infra.bench.lake_measures import LakeBench, Row, Sizes
from infra.bench.records import write_json_lines

console = Console()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.bench.lake")
    parser.add_argument(
        "--quick", action="store_true", help="less of all, below five minutes"
    )
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def main() -> None:
    given = arguments()
    measure(given.out.absolute(), quick=given.quick, only=given.only)


def measure(out: Path, *, quick: bool = False, only: str = "") -> None:
    """Run the tests and write what they found into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    tools.build(out)
    lines = write_json_lines(out / "records.json", 1_000_000)
    bench = LakeBench(out, lines, Sizes().quick() if quick else Sizes())
    results = out / f"lake-{int(time.time())}.jsonl"
    rows = []
    chosen = {name: test for name, test in bench.tests().items() if only in name}
    for test in chosen.values():
        for row in test():
            rows.append(row)
            _keep(results, row)
            console.print(
                f"{row.measure} | {row.figure}: {_number(row.value)} {row.target}",
                highlight=False,
            )
    shutil.rmtree(out / "lake", ignore_errors=True)
    if chosen:
        (out / "lake.md").write_text(markdown(rows) + "\n")


def markdown(rows: list[Row]) -> str:
    lines = ["| measure | figure | Lakelog | target |", "|---|---|---|---|"]
    lines += [
        f"| {r.measure} | {r.figure} | {_number(r.value)} | {r.target} |" for r in rows
    ]
    return "\n".join(lines)


def _keep(file: Path, row: Row) -> None:
    with file.open("a") as out:
        out.write(json.dumps(vars(row)) + "\n")


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


if __name__ == "__main__":
    main()
