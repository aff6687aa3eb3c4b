"""Writes the README's tables of foreign clients and programs from what was found."""

import json
import re
from math import inf
from pathlib import Path

from infra.api_table import README, replaced

BEGIN = "<!-- clients: begin (written by infra/clients_table.py) -->"
END = "<!-- clients: end -->"
PROGRAMS_BEGIN = "<!-- programs: begin (written by infra/clients_table.py) -->"
PROGRAMS_END = "<!-- programs: end -->"
CLIENTS = Path(__file__).parents[1] / "tests" / "clients"
RESULTS = CLIENTS / "results.json"
PROGRAMS = CLIENTS / "programs.json"
COLUMNS = ("produce", "start", "time", "group", "transactions", "table", "restart")


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown row for each that was run; libraries stand as they were run first."""
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    rows = sorted(rows, key=lambda row: (libraries.index(row["library"]), _age(row)))
    heads = ["library", "as", *COLUMNS]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [row["library"], row["version"], *(_cell(row[name]) for name in COLUMNS)]
        for row in rows
    ]
    return _markdown(lines)


def programs_table(rows: list[dict[str, str]]) -> str:
    """A Markdown row for each program and what was done with it, as first run."""
    heads = ["program", "what it did", "went"]
    found = [[row["program"], row["journey"], _cell(row["found"])] for row in rows]
    return _markdown([heads, ["---"] * len(heads), *found])


def _markdown(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _age(row: dict[str, str]) -> list[float]:
    """By its numbers; what asks for the newest stands behind them."""
    return [int(number) for number in re.findall(r"\d+", row["version"])] or [inf]


def _cell(text: str) -> str:
    """Short, and without what would end a cell."""
    return text.replace("|", "/").replace("<", "&lt;")[:120]


def with_table(text: str) -> str:
    """``text`` with what stands between both pairs of marks replaced."""
    text = replaced(text, BEGIN, END, table(json.loads(RESULTS.read_text())))
    programs = programs_table(json.loads(PROGRAMS.read_text()))
    return replaced(text, PROGRAMS_BEGIN, PROGRAMS_END, programs)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
